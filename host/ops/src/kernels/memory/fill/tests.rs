use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::kernels::{write_all, zeros};

#[test]
fn every_row_is_filled_by_the_chunk_that_has_it() {
    for (threads, rows) in [(1, 7), (2, 7), (3, 64), (4, 2), (2, 0)] {
        for schedule in [
            Schedule::per_thread(threads, rows, 1),
            Schedule::per_thread(threads, rows, 4),
            Schedule::stealing(threads, rows, 2),
            Schedule::in_chunks(threads, rows, 1),
            Schedule::of_size(threads, rows, 3),
        ] {
            let chunks = schedule.chunks();
            let (mut doubled, mut counts) = (vec![0; 2 * rows], vec![0; chunks]);
            let rooms = AtomicUsize::new(0);
            let memory = (
                UninitRows::new(rows, 3),
                Rows::new(&mut doubled, 2),
                Rows::per_chunk(&mut counts, 1),
                UninitRows::per_chunk(chunks, 1),
            );
            let room = || rooms.fetch_add(1, Ordering::SeqCst);
            let (tripled, (), (), lengths) =
                fill_parts_with(schedule, memory, room, |_, rows, parts| {
                    let (tripled, doubled, counts, lengths) = parts;
                    for (row, doubled) in rows.clone().zip(doubled.chunks_exact_mut(2)) {
                        doubled.fill(row);
                    }
                    counts.fill(rows.len());
                    let indices = (3 * rows.start..).take(tripled.len());
                    let tripled = write_all(tripled, indices);
                    let lengths = write_all(lengths, [rows.len() as u64]);
                    (tripled, (), (), lengths)
                });
            assert_eq!(tripled, (0..3 * rows).collect::<Vec<_>>());
            assert_eq!(doubled, (0..2 * rows).map(|x| x / 2).collect::<Vec<_>>());
            assert_eq!(counts.iter().sum::<usize>(), rows);
            assert_eq!(lengths.iter().sum::<u64>(), rows as u64);
            assert!(rooms.into_inner() <= threads.max(1));
        }
    }
}

#[test]
fn interleaved_rows_are_filled_in_all_lines() {
    let dims @ [outer, lines, inner, each] = [2, 3, 5, 2];
    let expected: Vec<usize> = (0..outer * lines * inner * each).collect();
    for threads in [1, 3] {
        let schedule = Schedule::per_thread(threads, outer * inner, 1);
        let filled = fill_parts(schedule, UninitInterleaved::new(dims), |rows, mut part| {
            for row in rows.clone() {
                let (outer, index) = (row / inner, row % inner);
                part.write_next(|line, slots| {
                    let start = ((outer * lines + line) * inner + index) * each;
                    write_all(slots, start..)
                });
            }
            part.finish()
        });
        assert_eq!(filled, expected);
    }
}

#[test]
#[should_panic(expected = "fewer rows than a part has")]
fn interleaved_rows_that_are_left_out_are_noticed() {
    let memory = UninitInterleaved::new([1, 1, 3, 1]);
    fill_parts(Schedule::per_thread(1, 3, 1), memory, |_, mut part| {
        part.write_next(|_, slots| zeros::<f32>(slots));
        part.finish()
    });
}

#[test]
#[should_panic(expected = "another size than the work")]
fn memory_of_another_size_is_not_filled() {
    let mut numbers = [0; 5];
    fill_parts(
        Schedule::per_thread(1, 3, 1),
        Rows::new(&mut numbers, 2),
        |_, _| (),
    );
}

#[test]
#[should_panic(expected = "was not handed back")]
fn a_part_that_is_not_handed_back_is_noticed() {
    fill_parts(
        Schedule::per_thread(1, 3, 1),
        UninitRows::<f32>::new(3, 1),
        |_, slots| &mut zeros(slots)[1..],
    );
}

#[test]
#[should_panic(expected = "was not handed back")]
fn another_slice_is_no_part() {
    fill_parts(
        Schedule::per_thread(1, 3, 1),
        UninitRows::<f32>::new(3, 1),
        |_, _| Box::leak(Box::new([0.0; 3])),
    );
}

#[test]
fn absent_memory_has_empty_parts() {
    let memory = Rows::if_any(&mut [] as &mut [f32], 1);
    fill_parts(Schedule::per_thread(2, 6, 1), memory, |_, part| {
        assert!(part.is_empty());
    });
}

#[test]
#[should_panic(expected = "beyond its slice")]
#[expect(unsafe_code, reason = "a part")]
fn a_part_beyond_the_slice_is_no_part() {
    let mut numbers = [1, 2, 3];
    let shared = SharedSlice::new(&mut numbers);
    // SAFETY: this is the only part.
    unsafe { shared.part(2..4) };
}
