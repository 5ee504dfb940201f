//! The nearest valid name, for messages about mistyped ones.

/// What is longer was not meant as any name.
const LONGEST: usize = 1000;

/// The known name that is nearest to `wanted`, if one is near: at most a third of its letters
/// differ, or it begins or ends alike.
///
/// ```
/// use sconce::nearest::nearest;
///
/// assert_eq!(nearest("epohcs", ["epochs", "batch_size"]), Some("epochs"));
/// assert_eq!(nearest("colour", ["epochs", "batch_size"]), None);
/// ```
pub fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // No name is as long, and the distance takes time and memory by the length.
    if wanted.len() > LONGEST {
        return None;
    }
    known
        .into_iter()
        .map(|name| {
            (
                strsim::damerau_levenshtein(&name.to_lowercase(), &wanted.to_lowercase()),
                name,
            )
        })
        .filter(|(distance, name)| is_near(*distance, wanted, name))
        .min()
        .map(|(_, name)| name)
}

fn is_near(distance: usize, wanted: &str, name: &str) -> bool {
    let contains =
        wanted.len() >= 3 && name.contains(wanted) || name.len() >= 3 && wanted.contains(name);
    contains || distance * 3 <= wanted.chars().count().max(name.chars().count())
}
