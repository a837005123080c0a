//! Numbers made of samples.

/// A count as a number to calculate with.
pub(crate) fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// The smallest sample that at least `percent` of all samples do not exceed. Nothing is interpolated: what it says was
/// measured.
pub(crate) fn percentile(samples: &[f64], percent: usize) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() * percent.min(100)).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// How a quantity grows with another: 1 is linear, 2 is quadratic. The slope of the line through the logarithms.
pub(crate) fn growth(points: &[(f64, f64)]) -> Option<f64> {
    let logarithms: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.ln())).collect();
    if logarithms.iter().any(|(x, y)| !x.is_finite() || !y.is_finite()) {
        return None;
    }
    let count = number(logarithms.len());
    let mean = |of: fn(&(f64, f64)) -> f64| logarithms.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = logarithms.iter().map(|point| (point.0 - x).powi(2)).sum();
    let together: f64 = logarithms.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (spread > 0.0).then(|| together / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_whatever_their_order() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        for (percent, expected) in [(1, 1.0), (50, 50.0), (99, 99.0), (100, 100.0)] {
            assert_eq!(percentile(&samples, percent), Some(expected), "p{percent}");
        }
    }

    #[test]
    fn a_high_percentile_of_few_samples_is_the_worst_of_them() {
        assert_eq!(percentile(&[3.0, 1.0, 2.0], 99), Some(3.0));
        assert_eq!(percentile(&[7.0], 1), Some(7.0));
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&[1.0, 9.0], 50), Some(1.0));
    }

    #[test]
    fn growth_is_the_power_by_which_a_quantity_grows() {
        let power = |exponent: i32| growth(&[1.0, 10.0, 30.0].map(|x: f64| (x, 5.0 * x.powi(exponent))));
        assert!((power(1).unwrap() - 1.0).abs() < 1e-9);
        assert!((power(2).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(growth(&[(10.0, 1.0)]), None, "one point has no slope");
        assert_eq!(growth(&[(0.0, 1.0), (1.0, 1.0)]), None);
    }
}
