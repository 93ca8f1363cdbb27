//! In which order the rungs of a step are offered to the script, which takes the first that is open and free.

use super::plan::{Order, Rung, Step};

/// The rungs of a step in the order they are offered to the script.
pub fn offer(step: &Step) -> Vec<&Rung> {
    let mut rungs: Vec<&Rung> = step.rungs.iter().collect();
    match step.order {
        Order::Listed => {}
        Order::Priority => rungs.sort_by_key(|rung| rung.serving.connection.priority),
        Order::Spread => {
            // A draw without replacement, each rung as likely as its weight: the least of exponential waits comes first.
            let wait = |rung: &&Rung| -rand::random::<f64>().ln() / f64::from(rung.serving.connection.weight);
            let mut drawn: Vec<(f64, &Rung)> = rungs.iter().map(|rung| (wait(rung), *rung)).collect();
            drawn.sort_by(|(a, x), (b, y)| {
                let by_priority = x.serving.connection.priority.cmp(&y.serving.connection.priority);
                by_priority.then(a.total_cmp(b))
            });
            rungs = drawn.into_iter().map(|(_, rung)| rung).collect();
        }
    }
    rungs
}
