//! The known word that a mistyped one was probably meant to be. Only a hint for a person: nothing is ever read as its nearest.

/// The word of `known` that is nearest to `typed`, if any is near enough to be worth naming.
pub(crate) fn nearest<'k>(typed: &str, known: &[&'k str]) -> Option<&'k str> {
    let length = typed.chars().count();
    if length == 0 || length > 64 {
        return None;
    }
    known
        .iter()
        .map(|word| (distance(&typed.to_lowercase(), &word.to_lowercase()), *word))
        .filter(|(distance, word)| *distance <= (word.chars().count().min(length) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// How many characters must be put in, taken out, replaced or swapped with their neighbour to make `a` of `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut previous = None;
    for (row, c) in a.chars().enumerate() {
        let mut current = Vec::with_capacity(last.len());
        current.push(row + 1);
        for (column, d) in b.iter().enumerate() {
            let at =
                |line: &[usize], column: usize| line.get(column).copied().unwrap_or(usize::MAX - 1);
            let mut best = (at(&last, column) + usize::from(c != *d))
                .min(at(&last, column + 1) + 1)
                .min(at(&current, column) + 1);
            let swapped = column
                .checked_sub(1)
                .filter(|left| previous == Some(*d) && b.get(*left) == Some(&c));
            if let Some(left) = swapped {
                best = best.min(at(&before_last, left) + 1);
            }
            current.push(best);
        }
        before_last = std::mem::replace(&mut last, current);
        previous = Some(c);
    }
    last.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_swaps_as_one() {
        for (a, b, wanted) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "ab", 1),
            ("permision", "permission", 1),
            ("yoloMdoe", "yoloMode", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), wanted, "{a} {b}");
        }
    }

    #[test]
    fn only_a_near_word_is_named() {
        let known = ["permission", "session", "limits"];
        assert_eq!(nearest("permision", &known), Some("permission"));
        assert_eq!(nearest("Permission", &known), Some("permission"));
        assert_eq!(nearest("limit", &known), Some("limits"));
        assert_eq!(nearest("zzz", &known), None);
        assert_eq!(nearest("", &known), None);
        assert_eq!(nearest(&"x".repeat(1000), &known), None);
    }
}
