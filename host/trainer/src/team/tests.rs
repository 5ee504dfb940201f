use super::threads::on_ranks;
use super::*;

#[test]
fn everybody_hears_what_everybody_says() {
    let all = on_ranks(3, |team| {
        let text = "x".repeat(team.rank() * 5);
        let heard = team.hear(
            Purpose::Vote,
            Said {
                mark: 4,
                flags: 1 << team.rank(),
                number: u64::from(team.rank() == 2),
                bytes: text.as_bytes(),
            },
        );
        let heard = heard.expect("all are there");
        let lengths: Vec<usize> = (0..3).map(|rank| heard.of(rank).len()).collect();
        (
            lengths,
            heard.flags.clone(),
            heard.different().collect::<Vec<_>>(),
        )
    });
    for heard in all {
        assert_eq!(heard, (vec![0, 5, 10], vec![1, 2, 4], vec![2]));
    }
}

#[test]
fn a_failed_rank_is_heard_whatever_the_others_do() {
    let all = on_ranks(3, |team| {
        if team.rank() == 1 {
            team.fail(4, "its hook failed");
            return None;
        }
        let said = Said {
            bytes: &[7; 100],
            ..Said::default()
        };
        let error = team
            .hear(Purpose::Update, said)
            .expect_err("rank 1 has failed");
        // They are together again afterwards.
        Some((error.code(), error.to_string()))
    });
    let expected = Some((Some(4), "rank 1 (node0): its hook failed".to_owned()));
    assert_eq!(all, [expected.clone(), None, expected]);
}

#[test]
fn ranks_at_different_places_say_so() {
    let all = on_ranks(2, |team| {
        let purpose = [Purpose::Vote, Purpose::Update][team.rank()];
        let error = team
            .hear(purpose, Said::default())
            .expect_err("they differ");
        error.to_string()
    });
    assert!(
        all[0].starts_with("rank 1 (node0) is summing"),
        "{}",
        all[0]
    );
    assert!(
        all[1].contains("rank 0 (node0) is serving requests"),
        "{}",
        all[1]
    );
}

#[test]
fn the_first_ranks_bytes_reach_all() {
    let all = on_ranks(4, |team| team.from_first(|| b"a checkpoint".to_vec()));
    for bytes in all {
        assert_eq!(bytes.as_deref(), Ok(&b"a checkpoint"[..]));
    }
}

#[test]
fn a_rank_that_is_gone_is_an_error() {
    let all = on_ranks(2, |team| {
        if team.rank() == 0 {
            return None;
        }
        let error = team
            .hear(Purpose::Vote, Said::default())
            .expect_err("it is gone");
        Some((team.is_broken(), error.to_string()))
    });
    let (is_broken, message) = all[1].clone().expect("an error");
    assert!(is_broken);
    assert_eq!(message, "the ranks have lost each other: a rank is gone");
}
