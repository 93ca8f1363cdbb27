//! In which order the rungs of a step are offered to the script, which takes the first that is open and free.

use super::plan::{Order, Rung, Step};
use crate::health::Healths;

/// The rungs of a step in the order they are offered to the script.
pub fn offer<'s>(step: &'s Step, healths: &Healths) -> Vec<&'s Rung> {
    let mut rungs: Vec<&Rung> = step.rungs.iter().collect();
    match step.order {
        Order::Listed => {}
        Order::Priority => rungs.sort_by_key(|rung| rung.serving.connection.priority),
        Order::Spread => {
            // A draw without replacement, each rung as likely as its weight × health: the least of exponential waits comes first.
            let share = |rung: &Rung| {
                let connection = &rung.serving.connection;
                f64::from(connection.weight) * healths.factor(&connection.id)
            };
            let wait = |rung: &&Rung| -rand::random::<f64>().ln() / share(rung);
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use shared::state::survey::Health;

    use super::*;
    use crate::catalog::tests::catalog;
    use crate::flow::plan::{Means, plan};

    /// The step of a group of four: one behind the others, and of those one with half of the weight.
    fn step(strategy: &str) -> Step {
        let catalog = catalog(&format!(
            "
providers: {{p: {{dialect: openai, base_url: http://localhost:1}}}}
models: {{m: {{provider: p}}}}
groups: {{p: {{strategy: {strategy}}}}}
connections:
  - {{id: last, provider: p, api_key: k, priority: 5, weight: 100}}
  - {{id: light, provider: p, api_key: k, weight: 1}}
  - {{id: twice, provider: p, api_key: k, weight: 2}}
  - {{id: other, provider: p, api_key: k, weight: 1}}
"
        ));
        let account = "a".parse().unwrap();
        let means = Means::of(&account);
        plan(&catalog, means, catalog.model("m").unwrap(), None).steps.remove(0)
    }

    fn ids(step: &Step) -> Vec<String> {
        ids_by(step, &Healths::default())
    }

    fn ids_by(step: &Step, healths: &Healths) -> Vec<String> {
        offer(step, healths).into_iter().map(|rung| rung.serving.connection.id.as_str().to_owned()).collect()
    }

    #[test]
    fn by_priority_the_order_is_that_of_the_file_within_one() {
        assert_eq!(ids(&step("priority")), ["light", "twice", "other", "last"]);
    }

    #[test]
    fn spread_traffic_follows_the_weights_within_a_priority_and_offers_each_once() {
        let step = step("spread");
        let draws = 8_000;
        let mut first: HashMap<String, u32> = HashMap::new();
        let mut second_of_twice = 0;
        for _ in 0..draws {
            let ids = ids(&step);
            assert_eq!(ids[3], "last", "weight never outdoes priority");
            let mut all = ids.clone();
            all.sort();
            assert_eq!(all, ["last", "light", "other", "twice"]);
            second_of_twice += u32::from(ids[0] == "light" && ids[1] == "twice");
            *first.entry(ids[0].clone()).or_default() += 1;
        }
        // Standard deviations are about 40: these are more than five of them.
        for (id, expected) in [("twice", 4_000), ("light", 2_000), ("other", 2_000)] {
            assert!(first[id].abs_diff(expected) < 220, "{id}: {} of {draws}", first[id]);
        }
        // Once `light` is first, `twice` is second two times of three.
        assert!(u32::abs_diff(second_of_twice, 1_333) < 200, "{second_of_twice}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_connection_gets_a_twentieth_of_its_weight_and_all_of_it_again_with_time() {
        let (step, healths) = (step("spread"), Healths::default());
        let failing = Health { fails_milli: 50_000, ..Health::default() };
        healths.learn(&"twice".parse().unwrap(), failing);
        let first = |healths: &Healths| (0..4_000).filter(|_| ids_by(&step, healths)[0] == "twice").count();
        // 0.1 of 2.1, then 2 of 4: the bounds are more than five standard deviations away.
        assert!((110..=280).contains(&first(&healths)), "{}", first(&healths));
        tokio::time::advance(std::time::Duration::from_mins(5)).await;
        assert!((1_830..=2_170).contains(&first(&healths)), "{}", first(&healths));
    }

    #[test]
    fn own_connections_are_offered_as_listed_whatever_their_priority() {
        let listed = Step { order: Order::Listed, ..step("spread") };
        assert_eq!(ids(&listed), ["last", "light", "twice", "other"]);
    }
}
