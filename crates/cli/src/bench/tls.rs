//! Plain and over TLS, in turns on fresh servers, so that whatever else the machine does meets both.

use super::report::{Figure, Floor, Report};
use super::server::{self, Server};
use super::{Measurement, Store, measure};
use crate::exit::Exit;

/// How often each is measured. What counts is the one in the middle.
const ROUNDS: usize = 3;
/// What is left of the speed over TLS, at least.
const SHARE_MIN: f64 = 0.85;

/// Measures both, and adds what came out and how they compare.
pub async fn compare(
    store: &Store,
    what: Measurement,
    metric: &str,
    runs: usize,
    report: &mut Report,
) -> Result<(), Exit> {
    let mut rounds: [Vec<Vec<Figure>>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (over_tls, rounds) in [false, true].into_iter().zip(&mut rounds) {
            server::speak_tls(over_tls);
            let mut own = Report::new(false);
            let mut server = Server::start(store, &[]).await?;
            measure(&server.target, server.database.as_ref(), store.peer(), what, metric, runs, &mut own).await?;
            server.stop().await;
            rounds.push(own.figures().to_vec());
        }
    }
    server::speak_tls(false);
    let [plain, encrypted] = rounds.map(|rounds| medians(&rounds));
    for (plain, encrypted) in plain.iter().zip(&encrypted) {
        let peer = store.peer().replace("HTTP", "HTTPS");
        report.add(store.peer(), &plain.metric, plain.value, plain.unit, plain.settings.as_str());
        report.add(&peer, &encrypted.metric, encrypted.value, encrypted.unit, encrypted.settings.as_str());
        let (name, share) = (format!("{}_tls_share", plain.metric), encrypted.value / plain.value);
        match what {
            Measurement::Submit | Measurement::Drain => {
                report.check(&peer, &name, share, "of plain", Floor::AtLeast(SHARE_MIN));
            }
            Measurement::Limits
            | Measurement::Bulk
            | Measurement::Stream
            | Measurement::Workflows
            | Measurement::Pickup => report.add(&peer, &name, share, "of plain", "no floor"),
        }
    }
    Ok(())
}

/// Each figure of the first round, with the value in the middle of all rounds.
fn medians(rounds: &[Vec<Figure>]) -> Vec<Figure> {
    let Some(first) = rounds.first() else { return Vec::new() };
    let middle = |index: usize, figure: &Figure| {
        let mut values: Vec<f64> = rounds.iter().filter_map(|round| Some(round.get(index)?.value)).collect();
        values.sort_by(f64::total_cmp);
        Figure { value: values[values.len() / 2], ..figure.clone() }
    };
    first.iter().enumerate().map(|(index, figure)| middle(index, figure)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_in_the_middle_counts() {
        let round = |value| {
            let (peer, metric, settings) = ("x".to_owned(), "drain".to_owned(), String::new());
            vec![Figure { peer, metric, value, unit: "jobs/s", settings }]
        };
        assert_eq!(medians(&[round(3.0), round(1.0), round(2.0)])[0].value, 2.0);
        assert!(medians(&[]).is_empty());
    }
}
