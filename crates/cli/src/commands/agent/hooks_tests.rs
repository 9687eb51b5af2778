use std::fs;

use super::*;

/// The hooks of an agent that works below a directory, which the test keeps.
struct Site {
    directory: tempfile::TempDir,
    tasks: mpsc::Sender<Task>,
    inputs: mpsc::Receiver<Input>,
    hands: tokio::task::JoinHandle<()>,
}

impl Site {
    fn new(register: &str, deregister: &str, patience: Duration) -> Site {
        let directory = tempfile::tempdir().unwrap();
        let place = |hook: &str| Some(hook.replace("OUT", directory.path().to_str().unwrap()));
        let hooks = Hooks {
            register: place(register),
            deregister: place(deregister),
            directory: directory.path().to_owned(),
            github: None,
            timeout: patience,
            about: About {
                pool: "linux".into(),
                namespace: "default".into(),
                runner_id: "r-1".into(),
                machine_id: "m-1".into(),
            },
            work: WorkDirectory::open(&directory.path().join("work")).unwrap(),
            orphanage: Orphanage::open(Duration::from_secs(60)).unwrap(),
        };
        let (tasks, to_do) = mpsc::channel(4);
        let (heard, inputs) = mpsc::channel(4);
        let hands = tokio::spawn(hooks.work(to_do, heard));
        Site { directory, tasks, inputs, hands }
    }

    async fn task(&mut self, task: Task) -> Input {
        self.tasks.send(task).await.unwrap();
        self.inputs.recv().await.unwrap()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap()
    }

    /// The directories of runs.
    fn places(&self) -> usize {
        let parts = fs::read_dir(self.directory.path().join("work")).unwrap().map(|entry| entry.unwrap().path());
        parts.filter(|part| part.is_dir()).map(|part| fs::read_dir(part).unwrap().count()).sum()
    }
}

fn job() -> Job {
    Job { run_id: Some("ci-17".into()), epoch: 1, deadline: None, until: Some(baton::proto::Time(0)) }
}

/// Waits until a process is no more; the harness ends a test that waits for ever.
async fn gone(pid: &str) {
    let path = format!("/proc/{}/stat", pid.trim());
    while fs::read_to_string(&path).is_ok_and(|stat| !stat.contains(") Z ")) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn hooks_know_their_run_and_nothing_else_of_baton() {
    let mut site = Site::new("env > OUT/env; pwd > OUT/pwd", "echo \"$BATON_RUN_ID\" > OUT/removed", PATIENCE);
    assert_eq!(site.task(Task::Register(job())).await, Input::Hook(Hook::Register, Ok(())));
    let env = site.read("env");
    for line in [
        "BATON_RUN_ID=ci-17",
        "BATON_POOL=linux",
        "BATON_NAMESPACE=default",
        "BATON_RUNNER_ID=r-1",
        "BATON_MACHINE_ID=m-1",
        "BATON_DEADLINE=1970-01-01T00:00:00.000Z",
        &format!("BATON_WORK_DIR={}", site.read("pwd").trim()),
    ] {
        assert!(env.lines().any(|found| found == line), "{line} is not in\n{env}");
    }
    assert_eq!(env.lines().filter(|line| line.starts_with("BATON_")).count(), 7, "{env}");
    assert_eq!(site.task(Task::Deregister(job())).await, Input::Hook(Hook::Deregister, Ok(())));
    assert_eq!(site.read("removed"), "ci-17\n");
}

#[tokio::test]
async fn what_registering_started_goes_on_until_the_run_is_cleaned_away() {
    let hook = "sleep 600 & echo $! > OUT/service; setsid sleep 600 & echo $! > OUT/escaped; touch left; \
                bash -c 'set -m; env -i sleep 600 </dev/null >/dev/null 2>&1 & echo $! > OUT/grouped; disown'";
    let mut site = Site::new(hook, "kill -0 $(cat OUT/service)", PATIENCE);
    assert_eq!(site.task(Task::Register(job())).await, Input::Hook(Hook::Register, Ok(())));
    assert_eq!(site.places(), 1);
    // It lives when the other hook is run.
    assert_eq!(site.task(Task::Deregister(job())).await, Input::Hook(Hook::Deregister, Ok(())));
    assert_eq!(site.task(Task::Clean).await, Input::Cleaned(Ok(())));
    gone(&site.read("service")).await;
    gone(&site.read("escaped")).await;
    // One without a mark, that leads a group of the agent's own session.
    gone(&site.read("grouped")).await;
    assert_eq!(site.places(), 0);
}

#[tokio::test]
async fn a_hook_that_fails_says_why_and_leaves_nothing_running() {
    let mut site = Site::new("sleep 600 & echo $! > OUT/service; echo no token >&2; exit 7", "true", PATIENCE);
    let Input::Hook(Hook::Register, Err(why)) = site.task(Task::Register(job())).await else { panic!("it worked") };
    assert!(why.contains('7') && why.ends_with("no token"), "{why}");
    gone(&site.read("service")).await;
}

#[tokio::test]
async fn a_hook_that_takes_too_long_is_stopped() {
    let hook = "echo $$ > OUT/hook; echo waiting; sleep 600";
    let mut site = Site::new(hook, "true", Duration::from_millis(300));
    let Input::Hook(Hook::Register, Err(why)) = site.task(Task::Register(job())).await else { panic!("it worked") };
    assert!(why.contains("longer than 300ms") && why.ends_with("waiting"), "{why}");
    gone(&site.read("hook")).await;
}

#[tokio::test]
async fn whoever_is_released_while_it_registers_stops_that_first() {
    let mut site = Site::new("echo $$ > OUT/hook; mkfifo OUT/up; : > OUT/up; sleep 600", "cat OUT/hook", PATIENCE);
    site.tasks.send(Task::Register(job())).await.unwrap();
    // Opening the other end of the pipe waits until the hook is there.
    let up = site.directory.path().join("up");
    tokio::task::spawn_blocking(move || {
        while !up.exists() {
            std::thread::yield_now();
        }
        fs::read(up).unwrap()
    })
    .await
    .unwrap();
    let Input::Hook(Hook::Register, Err(_)) = site.task(Task::Deregister(job())).await else { panic!("it worked") };
    assert_eq!(site.inputs.recv().await, Some(Input::Hook(Hook::Deregister, Ok(()))));
    gone(&site.read("hook")).await;
}

#[tokio::test]
async fn an_agent_that_ends_takes_everything_along() {
    let mut site = Site::new("sleep 600 & echo $! > OUT/service", "true", PATIENCE);
    assert_eq!(site.task(Task::Register(job())).await, Input::Hook(Hook::Register, Ok(())));
    drop(site.tasks);
    site.hands.await.unwrap();
    let service = fs::read_to_string(site.directory.path().join("service")).unwrap();
    gone(&service).await;
    assert_eq!(fs::read_dir(site.directory.path().join("work")).unwrap().count(), 0);
}

#[tokio::test]
async fn the_watcher_takes_the_group_along_when_its_pipe_ends() {
    // As when the agent is killed: nothing is signalled, the pipe just ends.
    let directory = tempfile::tempdir().unwrap();
    let service = directory.path().join("service");
    let mut command = Command::new("/bin/sh");
    let hook = format!("sleep 600 & echo $! > '{}'", service.display());
    command.args(["-c", WATCHED, "hook", &hook]).stdin(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    let pipe = child.stdin.take();
    assert!(child.wait().await.unwrap().success());
    let service = fs::read_to_string(service).unwrap();
    assert!(std::path::Path::new(&format!("/proc/{}", service.trim())).exists());
    drop(pipe);
    gone(&service).await;
}
