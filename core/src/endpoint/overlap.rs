//! Which operations of an API match the same requests.
//!
//! Operations are compared all with all at once: a set of operations is a row of bits, and what one segment of a path
//! leaves over of it is one step. So the work is that of reading the operations, times a word for each 64 of them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use super::paths;

/// How operations relate to each other, by their places in the list that was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Overlaps {
    groups: Vec<Group>,
    /// Group of each operation, and its place there.
    at: Vec<(usize, usize)>,
}

/// Operations that have method and number of segments in common: no others match the same requests.
#[derive(Clone, Debug, Default, PartialEq)]
struct Group {
    /// Places in the list that was read.
    members: Vec<usize>,
    /// Of each member: those whose requests include all of its own.
    within: Vec<Bits>,
    /// Of each member: those that have some, and not all, requests in common with it.
    across: Vec<Bits>,
}

/// The operations with one method and one number of segments: their places, and their segments.
type Alike<'a> = Vec<(usize, Vec<&'a str>)>;

impl Overlaps {
    /// Reads operations: their methods and paths. Those that are not of a path match nothing else.
    pub fn of<'a>(operations: impl Iterator<Item = Option<(&'a str, &'a str)>>) -> Self {
        let mut found: BTreeMap<(&str, usize), Alike<'_>> = BTreeMap::new();
        let mut at = vec![];
        for (place, operation) in operations.enumerate() {
            at.push((usize::MAX, 0));
            let Some((method, target)) = operation else { continue };
            let segments: Vec<&str> = paths::trimmed(target).split('/').collect();
            found.entry((method, segments.len())).or_default().push((place, segments));
        }
        let mut groups = vec![];
        for ((_, length), members) in found {
            for (own, (place, _)) in members.iter().enumerate() {
                at[*place] = (groups.len(), own);
            }
            groups.push(Group::of(length, &members));
        }
        Self { groups, at }
    }

    /// The operations whose requests include all of this one's.
    pub fn within(&self, place: usize) -> impl Iterator<Item = usize> {
        self.of_group(place, |group| &group.within)
    }

    /// The operations that have some requests in common with this one, while each has others as well.
    pub fn across(&self, place: usize) -> impl Iterator<Item = usize> {
        self.of_group(place, |group| &group.across)
    }

    fn of_group(&self, place: usize, sets: fn(&Group) -> &Vec<Bits>) -> impl Iterator<Item = usize> {
        let (group, own) = self.at.get(place).copied().unwrap_or((usize::MAX, 0));
        let group = self.groups.get(group);
        group.into_iter().flat_map(move |group| sets(group)[own].iter().map(|member| group.members[member]))
    }
}

impl Group {
    fn of(length: usize, members: &[(usize, Vec<&str>)]) -> Self {
        let none = Bits::new(members.len());
        // Per segment: who has a parameter there, and who has which text. Texts are looked up once and have numbers from then on.
        let mut parameters = vec![none.clone(); length];
        let mut texts: Vec<Vec<Bits>> = vec![vec![]; length];
        let mut numbers: Vec<HashMap<Cow<'_, str>, usize>> = vec![HashMap::new(); length];
        let mut read: Vec<Vec<Option<usize>>> = vec![];
        for (own, (_, segments)) in members.iter().enumerate() {
            let read_one = segments.iter().enumerate().map(|(i, segment)| {
                if paths::is_parameter(segment) {
                    parameters[i].insert(own);
                    return None;
                }
                let number = *numbers[i].entry(lower_case(segment)).or_insert(texts[i].len());
                if number == texts[i].len() {
                    texts[i].push(none.clone());
                }
                texts[i][number].insert(own);
                Some(number)
            });
            read.push(read_one.collect());
        }
        let mut group = Self::default();
        for (own, ((place, _), segments)) in members.iter().zip(read).enumerate() {
            let (mut common, mut narrower, mut wider) = (none.not(), none.clone(), none.clone());
            for (i, text) in segments.into_iter().enumerate() {
                if let Some(number) = text {
                    common.keep(&texts[i][number], &parameters[i]);
                    narrower.add(&parameters[i]);
                } else {
                    wider.add_others(&parameters[i]);
                }
            }
            group.members.push(*place);
            group.across.push(common.and(&narrower).and(&wider));
            let mut within = common.and(&wider.not());
            within.remove(own);
            group.within.push(within);
        }
        group
    }
}

/// A text in lower case; most are.
fn lower_case(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        text.to_ascii_lowercase().into()
    } else {
        text.into()
    }
}

/// A set of the first so many numbers.
#[derive(Clone, Debug, PartialEq)]
struct Bits {
    words: Vec<u64>,
    count: usize,
}

impl Bits {
    fn new(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)], count }
    }

    fn insert(&mut self, number: usize) {
        self.words[number / 64] |= 1 << (number % 64);
    }

    fn remove(&mut self, number: usize) {
        self.words[number / 64] &= !(1 << (number % 64));
    }

    fn and(&self, other: &Self) -> Self {
        let words = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        Self { words, count: self.count }
    }

    /// Keeps what is in one of the two.
    fn keep(&mut self, one: &Self, other: &Self) {
        let both = one.words.iter().zip(&other.words);
        self.words.iter_mut().zip(both).for_each(|(word, (one, other))| *word &= one | other);
    }

    fn add(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// Adds what is not in the other.
    fn add_others(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= !other);
    }

    fn not(&self) -> Self {
        Self { words: self.words.iter().map(|word| !word).collect(), count: self.count }
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        let set = |number: &usize| self.words[number / 64] >> (number % 64) & 1 == 1;
        (0..self.count).filter(set)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::endpoint::paths::{Relation, relation};

    fn related(
        operations: &[(&str, String)],
        found: impl Fn(&Overlaps, usize) -> Vec<usize>,
    ) -> Vec<Vec<usize>> {
        let overlaps =
            Overlaps::of(operations.iter().map(|(method, target)| Some((*method, target.as_str()))));
        (0..operations.len()).map(|place| found(&overlaps, place)).collect()
    }

    /// The same, pair by pair.
    fn pairwise(operations: &[(&str, String)], wanted: Relation) -> Vec<Vec<usize>> {
        let is = |one: &(&str, String), other: &(&str, String)| {
            one.0 == other.0 && relation(&one.1, &other.1) == wanted
        };
        let of = |i: usize| {
            (0..operations.len()).filter(|j| i != *j && is(&operations[i], &operations[*j])).collect()
        };
        (0..operations.len()).map(of).collect()
    }

    proptest! {
        #[test]
        fn operations_relate_as_each_pair_of_them_does(
            operations in prop::collection::vec(
                (prop::sample::select(vec!["GET", "PUT"]), "(/([abA]|\\{[xy]\\}|bc)){0,4}/?"), 0..150,
            ),
        ) {
            let within = related(&operations, |overlaps, place| overlaps.within(place).collect());
            prop_assert_eq!(within, pairwise(&operations, Relation::Within));
            let across = related(&operations, |overlaps, place| overlaps.across(place).collect());
            prop_assert_eq!(across, pairwise(&operations, Relation::Across));
        }
    }

    #[test]
    fn what_is_no_path_matches_nothing_else() {
        let overlaps = Overlaps::of([None, Some(("GET", "/a")), None, Some(("GET", "/{x}"))].into_iter());
        assert_eq!(overlaps.within(1).collect::<Vec<_>>(), [3]);
        assert!(overlaps.within(0).chain(overlaps.across(2)).chain(overlaps.within(9)).next().is_none());
    }
}
