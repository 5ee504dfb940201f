//! Clusters of directions: k-means by cosine similarity (Dhillon and Modha, 2001).

use crate::losses::{Rows, WrongShape, scores};
use crate::queue::{directions, uniform};

/// How clusters are found.
pub(crate) struct Clustering {
    pub(crate) clusters: usize,
    pub(crate) rounds: usize,
    /// Of the rows that the clusters begin with.
    pub(crate) seed: u64,
}

/// What is found.
pub(crate) struct Found {
    /// A direction for each cluster, row by row.
    pub(crate) means: Vec<f32>,
    /// The cluster of each row, none for rows of zeros.
    pub(crate) of_rows: Vec<Option<usize>>,
}

/// Rows whose similarities are computed at once.
const AT_ONCE: usize = 1024;

/// Finds clusters of rows of length 1 or 0; none if fewer rows have a length than there are clusters.
///
/// A cluster that loses all its rows takes the one that is least similar to its own cluster.
pub(crate) fn cluster(rows: Rows<'_>, asked: &Clustering) -> Result<Option<Found>, WrongShape> {
    let width = rows.width();
    let known: Vec<usize> = (0..)
        .zip(rows.iter())
        .filter(|(_, row)| row.iter().any(|x| *x != 0.0))
        .map(|(index, _)| index)
        .collect();
    if asked.clusters == 0 || known.len() < asked.clusters {
        return Ok(None);
    }
    let points: Vec<f32> = known
        .iter()
        .filter_map(|index| rows.row(*index))
        .flatten()
        .copied()
        .collect();
    let points = Rows::new(&points, width)?;
    let mut means: Vec<f32> = drawn(points, asked)?
        .into_iter()
        .filter_map(|index| points.row(index))
        .flatten()
        .copied()
        .collect();
    let mut of_points = Vec::new();
    for round in 0..=asked.rounds {
        of_points = nearest(points, Rows::new(&means, width)?)?;
        if round < asked.rounds {
            means = means_of(points, &mut of_points, asked.clusters);
        }
    }
    let mut of_rows = vec![None; rows.count()];
    for (index, (cluster, _)) in known.into_iter().zip(of_points) {
        if let Some(of) = of_rows.get_mut(index) {
            *of = Some(cluster);
        }
    }
    Ok(Some(Found { means, of_rows }))
}

/// Different points, as many as clusters, of which each is likelier the less similar it is to those before: k-means++ (Arthur and
/// Vassilvitskii, 2007).
fn drawn(points: Rows<'_>, asked: &Clustering) -> Result<Vec<usize>, WrongShape> {
    let mut state = asked.seed;
    let mut draw = |below: f64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        f64::midpoint(f64::from(uniform(state)), 1.0) * below
    };
    let mut drawn = Vec::with_capacity(asked.clusters);
    let mut distances = vec![1.0_f64; points.count()];
    while drawn.len() < asked.clusters {
        let target = draw(distances.iter().sum());
        let mut sum = 0.0;
        let passes = |distance: &f64| {
            sum += distance;
            sum > target
        };
        // Where all are equal to some that are drawn, any other will do.
        let other = || (0..points.count()).find(|index| !drawn.contains(index));
        let Some(next) = distances.iter().position(passes).or_else(other) else {
            break;
        };
        drawn.push(next);
        let Some(row) = points.row(next) else { break };
        let similarities = scores(points, Rows::new(row, points.width())?)?;
        for (distance, similarity) in distances.iter_mut().zip(similarities) {
            *distance = distance.min((1.0 - f64::from(similarity)).max(0.0));
        }
        distances[next] = 0.0;
    }
    Ok(drawn)
}

/// The cluster of each point, the first of equal ones, with the similarity to it.
fn nearest(points: Rows<'_>, means: Rows<'_>) -> Result<Vec<(usize, f32)>, WrongShape> {
    let mut found = Vec::with_capacity(points.count());
    for block in points.values().chunks(AT_ONCE * points.width()) {
        let similarities = scores(Rows::new(block, points.width())?, means)?;
        for row in similarities.chunks_exact(means.count()) {
            let all = row.iter().copied().enumerate();
            let best = all.fold((0, f32::NEG_INFINITY), |best, (cluster, similarity)| {
                if similarity > best.1 {
                    (cluster, similarity)
                } else {
                    best
                }
            });
            found.push(best);
        }
    }
    Ok(found)
}

/// The directions of the clusters' means; empty clusters take a point first.
fn means_of(points: Rows<'_>, of_points: &mut [(usize, f32)], clusters: usize) -> Vec<f32> {
    let mut sizes = vec![0_usize; clusters];
    for (cluster, _) in &*of_points {
        sizes[*cluster] += 1;
    }
    for empty in 0..clusters {
        if sizes[empty] > 0 {
            continue;
        }
        let others = of_points.iter_mut();
        let away = others
            .filter(|(cluster, _)| sizes[*cluster] > 1)
            .min_by(|one, other| one.1.total_cmp(&other.1));
        if let Some(away) = away {
            sizes[away.0] -= 1;
            sizes[empty] = 1;
            *away = (empty, 1.0);
        }
    }
    let width = points.width();
    let mut sums = vec![0.0_f64; clusters * width];
    for (point, (cluster, _)) in points.iter().zip(&*of_points) {
        let sums = sums.iter_mut().skip(cluster * width);
        sums.zip(point).for_each(|(sum, x)| *sum += f64::from(*x));
    }
    let sums: Vec<f32> = sums.into_iter().map(|sum| sum as f32).collect();
    directions(&sums, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directions around three axes, some of them not known.
    fn points() -> Vec<f32> {
        let mut rows = Vec::new();
        for index in 0..30_u16 {
            let mut row = [0.0; 4];
            if index % 5 != 4 {
                row[usize::from(index % 3)] = 1.0;
                row[3] = f32::from(index % 7) * 0.05;
            }
            rows.extend(row);
        }
        directions(&rows, 4)
    }

    #[test]
    fn clusters_are_found_whichever_points_they_begin_with() {
        let points = points();
        let rows = Rows::new(&points, 4).expect("rows");
        for seed in 0..20 {
            let asked = Clustering {
                clusters: 3,
                rounds: 10,
                seed,
            };
            let found = cluster(rows, &asked).expect("rows").expect("enough");
            let again = cluster(rows, &asked).expect("rows").expect("enough");
            assert_eq!(found.of_rows, again.of_rows);
            let mut of_axes = [None; 3];
            for (index, cluster) in found.of_rows.iter().enumerate() {
                assert_eq!(cluster.is_none(), index % 5 == 4);
                if let Some(cluster) = cluster {
                    let of = of_axes[index % 3].get_or_insert(*cluster);
                    assert_eq!(of, cluster, "seed {seed}");
                }
            }
        }
        let many = Clustering {
            clusters: 25,
            rounds: 1,
            seed: 0,
        };
        assert!(cluster(rows, &many).expect("rows").is_none());
    }

    #[test]
    fn a_cluster_without_points_takes_the_one_furthest_from_its_own() {
        let points = [1.0, 0.0, 0.8, 0.6, 1.0, 0.0];
        let points = Rows::new(&points, 2).expect("rows");
        let mut of_points = vec![(0, 1.0), (0, 0.8), (0, 1.0)];
        let means = means_of(points, &mut of_points, 2);
        assert_eq!(of_points[1].0, 1);
        assert!((means[2] - 0.8).abs() < 1e-6 && (means[0] - 1.0).abs() < 1e-6);
    }
}
