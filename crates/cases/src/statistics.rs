//! Shares and their comparison, for few repeats.

/// The quantile of the normal distribution for an interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// The probability below which a difference counts as decided.
pub const ALPHA: f64 = 0.05;

/// Returns the 95 % interval of a share of `passed` in `of`, by E. B. Wilson's score method ("Probable Inference, the
/// Law of Succession, and Statistical Inference", Journal of the American Statistical Association 22, 1927). It stays
/// between 0 and 1, and its coverage for few repeats is better than that of the usual approximation. Without repeats it
/// is the whole range from 0 to 1.
pub fn wilson(passed: u64, of: u64) -> (f64, f64) {
    if of == 0 {
        return (0.0, 1.0);
    }
    let (n, p) = (of as f64, passed.min(of) as f64 / of as f64);
    let square = Z * Z;
    let centre = p + square / (2.0 * n);
    let half = Z * (p * (1.0 - p) / n + square / (4.0 * n * n)).sqrt();
    let whole = 1.0 + square / n;
    let low = if passed == 0 { 0.0 } else { ((centre - half) / whole).max(0.0) };
    let high = if passed >= of { 1.0 } else { ((centre + half) / whole).min(1.0) };
    (low, high)
}

/// Returns the probability that a fair coin falls at least as unevenly as `worse` to `better`: the exact two-sided sign
/// test (W. J. Dixon and A. M. Mood, "The Statistical Sign Test", Journal of the American Statistical Association 41,
/// 1946).
pub fn sign_test(worse: u64, better: u64) -> f64 {
    let n = worse + better;
    let fewer = worse.min(better);
    if n == 0 || worse == better {
        return 1.0;
    }
    // The sum of the binomial coefficients up to `fewer`, each divided by 2^n, by their logarithms.
    let mut ln_choose = 0.0;
    let ln_all = n as f64 * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for k in 0..=fewer {
        if k > 0 {
            ln_choose += ((n - k + 1) as f64 / k as f64).ln();
        }
        tail += (ln_choose - ln_all).exp();
    }
    (2.0 * tail).min(1.0)
}

/// Decides which of several probabilities stay below [`ALPHA`] together, by S. Holm's step-down method ("A Simple
/// Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6, 1979). With it, the
/// probability that any of the comparisons is a false alarm is at most [`ALPHA`], regardless of their number.
pub fn holm(probabilities: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut decided = vec![false; probabilities.len()];
    for (rank, index) in order.iter().enumerate() {
        let left = (probabilities.len() - rank) as f64;
        if probabilities[*index] * left > ALPHA {
            break;
        }
        decided[*index] = true;
    }
    decided
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 5e-4
    }

    #[test]
    fn intervals_are_those_of_the_tables() {
        // 8 of 10: 0.4902 to 0.9433, as Wilson's method gives without a correction for continuity.
        let (low, high) = wilson(8, 10);
        assert!(near(low, 0.4902) && near(high, 0.9433), "{low} {high}");
        let (low, high) = wilson(0, 10);
        assert!(low == 0.0 && near(high, 0.2775), "{low} {high}");
        let (low, high) = wilson(3, 3);
        assert!(near(low, 0.4385) && high == 1.0, "{low} {high}");
        assert_eq!(wilson(0, 0), (0.0, 1.0));
    }

    #[test]
    fn sign_test_is_exact() {
        assert_eq!(sign_test(0, 0), 1.0);
        assert!(near(sign_test(3, 0), 0.25));
        assert!(near(sign_test(0, 6), 0.03125));
        // 2 * (1 + 10 + 45) / 1024.
        assert!(near(sign_test(8, 2), 0.109_375));
        assert_eq!(sign_test(4, 4), 1.0);
        assert!(sign_test(2000, 0) < 1e-100);
    }

    #[test]
    fn several_comparisons_share_the_risk() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [true, false, false]);
        assert_eq!(holm(&[0.01, 0.02, 0.04]), [true, true, true]);
        assert_eq!(holm(&[0.06]), [false]);
        assert_eq!(holm(&[]), Vec::<bool>::new());
    }
}
