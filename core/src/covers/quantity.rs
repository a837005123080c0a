//! Kubernetes quantities, such as `500m` or `1Gi`.

/// The smallest unit that the API server keeps, as a power of ten.
const SMALLEST: i64 = -9;

/// The largest amount that the API server keeps, in the smallest unit.
const LARGEST: i128 = i64::MAX as i128 * 1_000_000_000;

/// The amount of a quantity in billionths, as the API server keeps it: what is smaller is rounded away from zero,
/// and what is too large is as large as possible. None if it is no quantity.
pub(crate) fn nanos(text: &str) -> Option<i128> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.len() <= number.matches('.').count() || fraction.contains('.') {
        return None;
    }
    let scale = Scale::of(suffix)?;
    let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
    for _ in 0..scale.kibis {
        multiply(&mut digits, 1024);
    }
    let exponent = scale.exponent.saturating_sub(i64::try_from(fraction.len()).unwrap_or(i64::MAX));
    let amount = magnitude(&digits, exponent);
    Some(if negative { -amount } else { amount })
}

/// What a suffix multiplies with.
struct Scale {
    exponent: i64,
    kibis: u32,
}

impl Scale {
    fn of(suffix: &str) -> Option<Self> {
        let decimal = |exponent| Some(Self { exponent, kibis: 0 });
        let binary = |kibis| Some(Self { exponent: 0, kibis });
        match suffix {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(1),
            "Mi" => binary(2),
            "Gi" => binary(3),
            "Ti" => binary(4),
            "Pi" => binary(5),
            "Ei" => binary(6),
            _ => decimal(suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
        }
    }
}

/// Multiplies a number of decimal digits, the highest first.
fn multiply(digits: &mut Vec<u8>, factor: u32) {
    let mut carry = 0_u32;
    for digit in digits.iter_mut().rev() {
        carry += u32::from(*digit) * factor;
        *digit = low_digit(carry);
        carry /= 10;
    }
    let mut higher = Vec::new();
    while carry > 0 {
        higher.push(low_digit(carry));
        carry /= 10;
    }
    digits.splice(0..0, higher.into_iter().rev());
}

fn low_digit(number: u32) -> u8 {
    (number % 10).to_le_bytes()[0]
}

/// The number of these digits, times ten to the `exponent`, in the smallest unit, rounded up and capped.
fn magnitude(digits: &[u8], exponent: i64) -> i128 {
    let Some(first) = digits.iter().position(|&digit| digit != 0) else { return 0 };
    let digits = &digits[first..];
    let length = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    // So many digits are left of the point, counted in the smallest unit.
    let whole = usize::try_from(length.saturating_add(exponent).saturating_sub(SMALLEST)).unwrap_or(0);
    let mut amount = 0_i128;
    for position in 0..whole {
        amount = amount * 10 + i128::from(digits.get(position).copied().unwrap_or(0));
        if amount > LARGEST {
            return LARGEST;
        }
    }
    let rest = digits.get(whole..).unwrap_or_default();
    (amount + i128::from(rest.iter().any(|&digit| digit != 0))).min(LARGEST)
}
