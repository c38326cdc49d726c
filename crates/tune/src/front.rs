//! The Pareto front of candidates: those that are the best at some case.

/// Returns for each candidate the number of cases at which it is among the best, or zero if it is dominated: others are as
/// good at all of these cases. `scores[candidate][case]` are the scores. The next parent is drawn with probabilities in
/// proportion to these numbers.
///
/// This is algorithm 2 of L. A. Agrawal et al., "GEPA: Reflective Prompt Evolution Can Outperform Reinforcement Learning"
/// (arXiv:2507.19457).
pub fn frequencies(scores: &[Vec<f64>]) -> Vec<usize> {
    let cases = scores.iter().map(Vec::len).min().unwrap_or_default();
    let best_at = |case: usize| -> Vec<usize> {
        let best = scores.iter().map(|scores| scores[case]).fold(f64::NEG_INFINITY, f64::max);
        (0..scores.len()).filter(|candidate| scores[*candidate][case] >= best).collect()
    };
    let mut fronts: Vec<Vec<usize>> = (0..cases).map(best_at).collect();
    // The worst is removed first, and of equal ones the latest, so that the earliest of equal candidates stays.
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let sum = |candidate: usize| scores[candidate].iter().sum::<f64>();
    order.sort_by(|a, b| sum(*a).total_cmp(&sum(*b)).then(b.cmp(a)));
    for candidate in order {
        if fronts.iter().all(|front| !front.contains(&candidate) || front.len() > 1) {
            fronts.iter_mut().for_each(|front| front.retain(|other| *other != candidate));
        }
    }
    (0..scores.len())
        .map(|candidate| fronts.iter().filter(|front| front.contains(&candidate)).count())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_count_the_cases_at_which_they_are_best() {
        assert_eq!(frequencies(&[vec![0.0, 0.0]]), [2]);
        assert_eq!(frequencies(&[vec![1.0, 0.0, 0.0], vec![0.0, 1.0, 1.0]]), [1, 2]);
        assert_eq!(frequencies(&[]), Vec::<usize>::new());
    }

    #[test]
    fn dominated_candidates_are_never_drawn() {
        // The second is as good as the first everywhere, and better once.
        assert_eq!(frequencies(&[vec![1.0, 0.0], vec![1.0, 1.0]]), [0, 2]);
        // Of equal ones, the earliest stays.
        assert_eq!(frequencies(&[vec![1.0, 0.0], vec![1.0, 0.0]]), [2, 0]);
        // Two together dominate a third, which is best nowhere alone.
        let scores = [vec![1.0, 0.0, 1.0], vec![0.0, 1.0, 1.0], vec![0.0, 0.0, 1.0]];
        assert_eq!(frequencies(&scores), [2, 2, 0]);
    }
}
