//! Random histories, told to a simple model, to SQLite and to PostgreSQL: all three must give the same answers.
//!
//! Every run of this test tells other histories. A failing one is shrunk, printed, and kept in regressions.txt, which
//! belongs in the repository. `BATON_MODEL_CASES` and `BATON_MODEL_STEPS` make it longer; `BATON_MODEL_SEED` repeats a run.

mod answer;
mod claim;
mod crew;
mod history;
mod model;
mod overview;
mod steps;
mod subject;
mod views;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use baton_store::Clock;
use baton_store::postgres::{PostgresOptions, PostgresStore};
use baton_store::sqlite::SqliteStore;
use proptest::test_runner::{
    Config, FileFailurePersistence, RngAlgorithm, TestCaseError, TestCaseResult, TestRng, TestRunner,
};
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;

use crate::model::{Model, START};
use crate::steps::Step;
use crate::subject::Subject;

const CASES_DEFAULT: u32 = 64;
const STEPS_DEFAULT: usize = 150;
/// A failing history is made shorter for at most this long.
const SHRINK_MS_MAX: u32 = 120_000;

#[test]
fn stores_and_model_tell_the_same_history() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seed = number("BATON_MODEL_SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let cases = number("BATON_MODEL_CASES").map_or(CASES_DEFAULT, |cases| cases as u32);
    let steps = number("BATON_MODEL_STEPS").map_or(STEPS_DEFAULT, |steps| steps as usize);
    println!("BATON_MODEL_SEED={seed} repeats these {cases} histories of up to {steps} steps");

    let runtime = Runtime::new().unwrap();
    let database = runtime.block_on(baton_testkit::database());
    let config = Config {
        cases,
        max_shrink_time: SHRINK_MS_MAX,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/model/regressions.txt"))),
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let histories = proptest::collection::vec(steps::step(), 1..=steps);
    let result = runner.run(&histories, |steps| runtime.block_on(tell(database.url(), &steps)));
    if let Err(error) = result {
        panic!("BATON_MODEL_SEED={seed}\n{error}");
    }
}

async fn tell(url: &str, steps: &[Step]) -> TestCaseResult {
    empty(url).await;
    let clocks = [Clock::manual(START), Clock::manual(START)];
    let sqlite = Arc::new(SqliteStore::open_in_memory(clocks[0].clone()).unwrap());
    let options = PostgresOptions { max_connections: 4, ..PostgresOptions::default() };
    let postgres = Arc::new(PostgresStore::connect(url, clocks[1].clone(), options).await.unwrap());
    let [first, second] = clocks;
    let mut subjects = [Subject::new(sqlite, first).await, Subject::new(postgres, second).await];
    let told = follow(steps, &mut subjects).await;
    for subject in &subjects {
        subject.store.close().await;
    }
    told
}

async fn follow(steps: &[Step], subjects: &mut [Subject]) -> TestCaseResult {
    let mut model = Model::new();
    // Without a worker, most steps mean nothing.
    let start = [Step::Register { max_concurrent: 3 }, Step::Register { max_concurrent: 5 }];
    for (index, step) in start.iter().chain(steps).enumerate() {
        let Some(action) = history::resolve(&mut model, step) else { continue };
        let expected = history::act(&mut model, &action);
        history::check(&model);
        for subject in subjects.iter_mut() {
            let answer = subject.act(&action).await;
            same(&format!("step {index}, {action:?}"), subject, &answer, &expected)?;
        }
    }
    for subject in subjects {
        let (runs, workers) = subject.views().await;
        for (run, expected) in runs.iter().zip(&model.run_views()) {
            same("at the end", subject, run, expected)?;
        }
        same("at the end", subject, &runs.len(), &model.runs.len())?;
        same("at the end", subject, &workers, &model.worker_views())?;
    }
    Ok(())
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
