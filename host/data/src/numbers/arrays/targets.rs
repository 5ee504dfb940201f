//! Interpretation of target arrays: integers are classes, floats are numeric targets.

use super::ArrayError;
use super::array::{Array, ArrayElements};
use crate::numbers::TargetValues;
use crate::{TargetScale, Targets};

/// Number of classes above which they need names: a larger integer is unlikely to be a class.
const MOST_UNNAMED: i64 = 65_536;

/// Returns the kind of targets of the training array.
pub(super) fn targets(array: &Array, classes: Option<&[String]>) -> Result<Targets, ArrayError> {
    let width = width(array)?;
    let ArrayElements::Integers(numbers) = &array.elements else {
        if classes.is_some() {
            let place = array.place.clone();
            return Err(ArrayError::NamedNumbers { place });
        }
        let name = |index: usize| format!("target{}", index + 1);
        return Ok(Targets::Numbers(match width {
            1 => vec!["target".to_owned()],
            _ => (0..width).map(name).collect(),
        }));
    };
    let names = classes.map_or_else(
        || {
            let most = numbers.iter().copied().max().unwrap_or(0);
            let most = most.clamp(0, MOST_UNNAMED - 1);
            (0..=most).map(|class| class.to_string()).collect()
        },
        <[String]>::to_vec,
    );
    Ok(match array.sample_shape() {
        [] | [1] => Targets::Class(names),
        _ => Targets::ClassPerPosition(names),
    })
}

/// Returns the targets of inputs that are their own: all of their values.
pub(super) fn inputs(array: &Array, classes: Option<&[String]>) -> Result<Targets, ArrayError> {
    if classes.is_some() {
        let place = array.place.clone();
        return Err(ArrayError::NamedNumbers { place });
    }
    let width: usize = array.sample_shape().iter().product();
    let name = |index: usize| format!("input{}", index + 1);
    Ok(Targets::Numbers((0..width).map(name).collect()))
}

/// Returns the values of targets if they can all be scaled; none of them has an array where inputs are their own targets.
pub(super) fn scalable<'a>(
    array: Option<&Array>,
    values: &'a TargetValues,
    scale: TargetScale,
) -> Result<&'a [f32], ArrayError> {
    let (Some(array), TargetValues::Numbers(numbers)) = (array, values) else {
        return Err(ArrayError::NothingToScale);
    };
    let Some(place) = numbers.iter().position(|value| !scale.takes(*value)) else {
        return Ok(numbers);
    };
    Err(ArrayError::NotScalable {
        place: array.place.clone(),
        sample: place / (numbers.len() / array.count().max(1)).max(1),
        found: numbers.get(place).copied().unwrap_or(f32::NAN),
        scale,
    })
}

/// Reads the targets of an array, which must be of the training targets' kind.
pub(super) fn values(array: &Array, targets: &Targets) -> Result<TargetValues, ArrayError> {
    let own = self::targets(array, None)?;
    let same = match (targets, &own) {
        (Targets::Numbers(a), Targets::Numbers(b)) => a.len() == b.len(),
        (Targets::Class(_), Targets::Class(_))
        | (Targets::ClassPerPosition(_), Targets::ClassPerPosition(_)) => true,
        _ => false,
    };
    if !same {
        return Err(ArrayError::OtherTargets {
            place: array.place.clone(),
            wanted: words(targets),
            found: words(&own),
        });
    }
    match &array.elements {
        // What is kept elsewhere are inputs; targets are this program's own.
        ArrayElements::Floats(_) | ArrayElements::Kept(_) => {
            Ok(TargetValues::Numbers(array.numbers()?))
        }
        ArrayElements::Integers(numbers) => classes(array, numbers, targets.outputs()),
    }
}

fn classes(array: &Array, numbers: &[i64], count: usize) -> Result<TargetValues, ArrayError> {
    let width = width(array)?;
    let class = |(index, &found): (usize, &i64)| {
        let class = u32::try_from(found).ok();
        let class = class.filter(|&class| (class as usize) < count);
        class.ok_or_else(|| ArrayError::Class {
            place: array.place.clone(),
            sample: index / width,
            found,
            classes: count,
        })
    };
    let classes = numbers.iter().enumerate().map(class);
    Ok(TargetValues::Classes(classes.collect::<Result<_, _>>()?))
}

/// Returns the number of targets per sample.
fn width(array: &Array) -> Result<usize, ArrayError> {
    match array.sample_shape() {
        [] => Ok(1),
        [width] => Ok(*width),
        _ => Err(ArrayError::Rank {
            place: array.place.clone(),
            role: "targets",
            wanted: "(samples) or (samples, …)",
            found: array.shape.clone(),
        }),
    }
}

fn words(targets: &Targets) -> String {
    match targets {
        Targets::Class(_) => "a class per sample".to_owned(),
        Targets::ClassPerPosition(_) | Targets::TokenPerPosition(_) => {
            "a class per position".to_owned()
        }
        Targets::None => "nothing".to_owned(),
        Targets::Numbers(names) if names.len() == 1 => "a number per sample".to_owned(),
        Targets::Numbers(names) => format!("{} numbers per sample", names.len()),
    }
}
