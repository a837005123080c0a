//! Generated names.
//!
//! A generated name is made of readable parts and ends in a hash of all of them, so that it is short enough for
//! its kind and still tells different inputs apart. The names are part of the API: workloads that exist already
//! are found again by them. Where the formula alone would give a name that Kubernetes refuses, the offending
//! characters are replaced; every name that is valid as it stands is kept bit by bit.

use sha2::{Digest, Sha256};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// What a name is for; it decides which names are valid and how long they may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// Most objects: a DNS subdomain of up to 253 characters.
    Object,
    /// A namespace: a DNS label of up to 63 characters.
    Namespace,
    /// A Service: a DNS label of up to 63 characters that starts with a letter.
    Service,
    /// A `CronJob`: a DNS subdomain of up to 52 characters, because its Jobs' names are longer.
    CronJob,
    /// A Job: a DNS subdomain of up to 63 characters, because its name becomes a label value.
    Job,
    /// A container of a pod: a DNS label of up to 63 characters.
    Container,
    /// A volume of a pod: a DNS label of up to 63 characters.
    Volume,
}

impl NameKind {
    /// How many characters a name of this kind may have.
    pub const fn limit(self) -> usize {
        match self {
            Self::Object => 253,
            Self::CronJob => 52,
            Self::Namespace | Self::Service | Self::Job | Self::Container | Self::Volume => 63,
        }
    }

    const fn allows_dots(self) -> bool {
        matches!(self, Self::Object | Self::CronJob | Self::Job)
    }

    const fn starts_with_letter(self) -> bool {
        matches!(self, Self::Service)
    }

    /// Whether Kubernetes accepts `name` for this kind.
    pub fn accepts(self, name: &str) -> bool {
        let label = |label: &str| {
            let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
            let bytes = label.as_bytes();
            bytes.first().is_some_and(|&b| inner(b))
                && bytes.last().is_some_and(|&b| inner(b))
                && bytes.iter().all(|&b| inner(b) || b == b'-')
        };
        name.len() <= self.limit()
            && if self.allows_dots() { name.split('.').all(label) } else { label(name) }
            && !(self.starts_with_letter() && name.starts_with(|c: char| c.is_ascii_digit()))
    }
}

/// The name that stands for `parts`, valid for `kind`.
pub fn generate(kind: NameKind, parts: &[&str]) -> String {
    let hash = short_hash(&parts.join("-"));
    let cleaned: Vec<String> = parts.iter().map(|part| clean(part)).collect();
    let name = assemble(kind.limit(), &cleaned, &hash);
    match String::from_utf8(name) {
        Ok(name) if kind.accepts(&name) => name,
        _ => assemble_valid(kind, &cleaned, &hash),
    }
}

/// First eight hexadecimal digits of the SHA-256 of `text`.
pub fn short_hash(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    format!("{:08x}", u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]))
}

/// Lower-cases, replaces what is no letter, number, dash or dot, and trims dashes and dots. Letters and
/// numbers are those of Unicode: most of them are refused by Kubernetes, but some lower-case to ASCII.
fn clean(part: &str) -> String {
    if part.is_ascii() {
        // Most are, and some have hundreds of characters.
        let ends = |c: char| !c.is_ascii_alphanumeric();
        let kept = |b: u8| if b.is_ascii_alphanumeric() || b == b'.' { b.to_ascii_lowercase() } else { b'-' };
        return part.trim_matches(ends).bytes().map(|b| char::from(kept(b))).collect();
    }
    let mapped: String = part
        .chars()
        // The mapping of single characters: U+0130 alone has a longer one, whose first character is the single one.
        .map(|c| c.to_lowercase().next().unwrap_or(c))
        .map(|c| if is_letter_or_number(c) || c == '-' || c == '.' { c } else { '-' })
        .collect();
    mapped.trim_matches(['-', '.']).to_owned()
}

fn is_letter_or_number(c: char) -> bool {
    // Most names are ASCII, and the tables of Unicode are searched.
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    matches!(c.general_category_group(), GeneralCategoryGroup::Letter | GeneralCategoryGroup::Number)
}

/// Shares the room that the hash and the separators leave out equally among the parts, the first ones getting
/// the remainder; what a short part does not need is not given to the others. Parts are cut by bytes, so the
/// result need not be text.
fn assemble(limit: usize, parts: &[String], hash: &str) -> Vec<u8> {
    let count = parts.len();
    let room = limit.saturating_sub(hash.len() + count);
    let mut name = Vec::with_capacity(limit);
    for (i, part) in parts.iter().enumerate() {
        let share = room / count + usize::from(i < room % count);
        name.extend_from_slice(&part.as_bytes()[..part.len().min(share)]);
        name.push(b'-');
    }
    name.extend_from_slice(hash.as_bytes());
    trim(&name)
}

/// Trims from both ends what is neither letter nor number.
fn trim(name: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(name) {
        Ok(text) => text.trim_matches(|c| !is_letter_or_number(c)).as_bytes().to_vec(),
        // A character was cut in half: no valid name in any case.
        Err(_) => name.to_vec(),
    }
}

/// The same formula over parts in which every character is a lower-case ASCII letter, a digit or a dash.
fn assemble_valid(kind: NameKind, parts: &[String], hash: &str) -> String {
    let ascii = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let mut parts: Vec<String> = parts
        .iter()
        .map(|part| part.chars().map(ascii).collect::<String>().trim_matches('-').to_owned())
        .collect();
    if kind.starts_with_letter()
        && let Some(first) = parts.first_mut()
        && !first.starts_with(|c: char| c.is_ascii_lowercase())
    {
        first.insert(0, 's');
    }
    String::from_utf8_lossy(&assemble(kind.limit(), &parts, hash)).into_owned()
}

#[cfg(test)]
mod tests;
