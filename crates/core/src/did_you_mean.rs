//! What somebody may have meant who mistyped a name.

/// The names that differ from the one typed in few places, nearest first.
pub fn near<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // One slip in a short name, more in a longer one; two of three letters wrong is another name.
    let slips_max = (typed.chars().count() / 3).clamp(1, 3);
    let mut found: Vec<_> = names
        .into_iter()
        .map(|name| (slips(&typed.to_lowercase(), &name.to_lowercase()), name))
        .filter(|(slips, _)| *slips <= slips_max)
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, name)| name).collect()
}

/// Letters to put in, leave out, replace or swap with their neighbour to make one word of the other.
fn slips(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows = vec![(0..=other.len()).collect::<Vec<usize>>()];
    for i in 1..=one.len() {
        let mut row = vec![i];
        for j in 1..=other.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != other[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_or_two_are_forgiven() {
        let names = ["work", "builds", "mail", "Builds-ios"];
        assert_eq!(near("wrok", names), ["work"]);
        assert_eq!(near("build", names), ["builds"]);
        assert_eq!(near("MAIL", names), ["mail"]);
        assert_eq!(near("builds-isO", names), ["Builds-ios"]);
        assert_eq!(near("something", names), Vec::<&str>::new());
        assert_eq!(near("", names), Vec::<&str>::new());
        assert_eq!((slips("ab", "ba"), slips("", "abc"), slips("kitten", "sitting")), (1, 3, 3));
    }
}
