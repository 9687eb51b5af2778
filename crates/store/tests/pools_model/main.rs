//! Random histories of a pool, told to a simple model, to SQLite and to PostgreSQL: all three must end up the same after every step.
//!
//! `BATON_MODEL_CASES` and `BATON_MODEL_STEPS` make it longer; `BATON_MODEL_SEED` repeats a run. A failing history is shrunk and printed.

mod model;
mod steps;
mod subject;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use baton_store::Clock;
use baton_store::postgres::{PostgresOptions, PostgresStore};
use baton_store::sqlite::SqliteStore;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestCaseResult, TestRng, TestRunner};
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

use crate::model::{Model, START};
use crate::steps::Step;
use crate::subject::Subject;

const CASES_DEFAULT: u32 = 24;
const STEPS_DEFAULT: usize = 80;
/// A failing history is made shorter for at most this long.
const SHRINK_MS_MAX: u32 = 120_000;

#[test]
fn stores_and_model_tell_the_same_history_of_a_pool() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seed = number("BATON_MODEL_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let cases = number("BATON_MODEL_CASES").map_or(CASES_DEFAULT, |cases| cases as u32);
    let steps = number("BATON_MODEL_STEPS").map_or(STEPS_DEFAULT, |steps| steps as usize);
    println!("BATON_MODEL_SEED={seed} repeats these {cases} histories of up to {steps} steps");

    let runtime = Runtime::new().unwrap();
    let database = runtime.block_on(baton_testkit::database());
    let config = Config { cases, max_shrink_time: SHRINK_MS_MAX, failure_persistence: None, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let histories = proptest::collection::vec(steps::phrase(), 1..=steps);
    let result = runner.run(&histories, |phrases| runtime.block_on(tell(database.url(), &phrases.concat())));
    if let Err(error) = result {
        panic!("BATON_MODEL_SEED={seed}\n{error}");
    }
}

async fn tell(url: &str, steps: &[Step]) -> TestCaseResult {
    empty(url).await;
    let clocks = [Clock::manual(START), Clock::manual(START)];
    let sqlite = Arc::new(SqliteStore::open_in_memory(clocks[0].clone()).unwrap());
    let options = PostgresOptions { max_connections: 2, ..PostgresOptions::default() };
    let postgres = Arc::new(PostgresStore::connect(url, clocks[1].clone(), options).await.unwrap());
    let [first, second] = clocks;
    let subjects = [Subject::new(sqlite, first).await, Subject::new(postgres, second).await];
    let told = follow(steps, &subjects).await;
    for subject in &subjects {
        subject.store.close().await;
    }
    told
}

async fn follow(steps: &[Step], subjects: &[Subject; 2]) -> TestCaseResult {
    let mut model = Model::new(subjects[0].pool);
    // Without runners and a claim, most steps mean nothing.
    let start = [Step::Order { count: 3 }, Step::Ready { runner: 0 }, Step::Ready { runner: 1 }];
    for (index, step) in start.iter().chain(steps).enumerate() {
        let Some(action) = model.resolve(step) else { continue };
        let when = format!("step {index}, {action:?}");
        model.act(&action);
        model.check();
        let mut answers = Vec::new();
        for subject in subjects {
            answers.push(subject.act(&action).await);
            same(&when, subject, &subject.runners().await, &model.runner_views())?;
            same(&when, subject, &subject.claims().await, &model.claim_views())?;
        }
        if answers[0] != answers[1] {
            return Err(TestCaseError::fail(format!("{when}:\n{}\nbut\n{}", answers[0], answers[1])));
        }
    }
    let [first, second] = [subjects[0].past().await, subjects[1].past().await];
    match first == second {
        true => Ok(()),
        false => Err(TestCaseError::fail(format!("the past differs:\n{first}\nbut\n{second}"))),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(when: &str, subject: &Subject, answer: &T, expected: &T) -> TestCaseResult {
    match answer == expected {
        true => Ok(()),
        false => Err(TestCaseError::fail(format!(
            "{when}:\n{} says {answer:#?}\nthe model says {expected:#?}",
            subject.store.kind()
        ))),
    }
}

/// Empties the database, which is faster than making a new one for every history.
async fn empty(url: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let sql = "select coalesce(string_agg(quote_ident(tablename), ', '), '') from pg_tables \
               where schemaname = 'public' and tablename <> 'schema_migrations'";
    let tables: String = client.query_one(sql, &[]).await.unwrap().get(0);
    if !tables.is_empty() {
        client.batch_execute(&format!("truncate {tables} restart identity cascade")).await.unwrap();
    }
    drop(client);
    connection.await.unwrap().unwrap();
}
