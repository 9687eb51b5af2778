use futures_util::StreamExt;

use super::*;

fn report() -> report::What {
    report::What::FailStep(v1::FailStepRequest::default())
}

fn error(code: tonic::Code, reason: &str) -> report_answer::What {
    report_answer::What::Error(v1::ReportError { code: code as u32, reason: reason.into(), message: String::new() })
}

fn answer(number: u64, what: report_answer::What) -> v1::ReportAnswer {
    v1::ReportAnswer { number, what: Some(what) }
}

#[tokio::test]
async fn everything_ready_goes_into_one_message_and_again_on_the_next_stream() {
    let link = Arc::new(Link::new(8));
    let mailbox = link.hold("r", "l");
    let mut requests = link.open(v1::Hello::default());
    link.send(&mailbox, vec![(1, report()), (2, report())]);
    let first = requests.next().await.unwrap();
    assert_eq!((first.slots, first.reports.len()), (7, 2));
    assert_eq!(first.hello.unwrap().leases.len(), 1);
    link.answer(answer(1, report_answer::What::State(0)));
    let mut requests_after = link.open(v1::Hello::default());
    assert!(requests.next().await.is_none(), "the stream before is over");
    let second = requests_after.next().await.unwrap();
    assert_eq!(second.reports.iter().map(|report| report.number).collect::<Vec<_>>(), [2]);
}

#[tokio::test]
async fn a_report_that_would_cut_the_stream_is_refused_here() {
    let link = Arc::new(Link::new(1));
    let mailbox = link.hold("r", "l");
    let mut requests = link.open(v1::Hello::default());
    let output = vec![b'1'; REPORT_BYTES_MAX + 1].into();
    let large = report::What::CompleteStep(v1::CompleteStepRequest { output, ..Default::default() });
    link.send(&mailbox, vec![(7, large), (8, report())]);
    assert_eq!(requests.next().await.unwrap().reports.len(), 1, "the other one is sent");
    let events = mailbox.take(futures_util::task::noop_waker_ref());
    let [Event::Answer { number: 7, what: report_answer::What::Error(error) }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(error.reason, "TOO_LARGE");
}

#[tokio::test(start_paused = true)]
async fn a_report_is_repeated_while_the_reason_passes_and_answered_when_it_does_not() {
    let link = Arc::new(Link::new(1));
    let mailbox = link.hold("r", "l");
    let mut requests = link.open(v1::Hello::default());
    link.send(&mailbox, vec![(9, report())]);
    assert_eq!(requests.next().await.unwrap().reports.len(), 1);
    link.answer(answer(1, error(tonic::Code::Unavailable, "UNAVAILABLE")));
    let repeated = tokio::select! {
        request = requests.next() => request.unwrap(),
        () = link.repeat() => unreachable!(),
    };
    assert_eq!(repeated.reports[0].number, 1);
    link.answer(answer(1, error(tonic::Code::Aborted, "LEASE_LOST")));
    let events = mailbox.take(futures_util::task::noop_waker_ref());
    assert!(matches!(&events[..], [Event::Answer { number: 9, what: report_answer::What::Error(_) }]), "{events:?}");
}

#[tokio::test]
async fn a_slot_is_granted_with_the_report_that_ends_a_run_and_only_once() {
    let link = Arc::new(Link::new(2));
    let mailbox = link.hold("r", "l");
    let mut requests = link.open(v1::Hello::default());
    assert_eq!(requests.next().await.unwrap().slots, 1);
    let suspend = report::What::Suspend(v1::SuspendRequest::default());
    link.send(&mailbox, vec![(1, suspend)]);
    assert_eq!(requests.next().await.unwrap().slots, 0, "it may go on");
    let complete = || report::What::CompleteWorkflow(v1::CompleteWorkflowRequest::default());
    link.send(&mailbox, vec![(2, complete())]);
    let with_the_end = requests.next().await.unwrap();
    assert_eq!((with_the_end.slots, with_the_end.reports.len()), (1, 1));
    // Refused, and said in another way.
    link.send(&mailbox, vec![(3, complete())]);
    assert_eq!(requests.next().await.unwrap().slots, 0);
    let mut after_a_cut = link.open(v1::Hello::default());
    let hello = after_a_cut.next().await.unwrap();
    assert_eq!((hello.slots, hello.hello.unwrap().leases.len()), (2, 1), "held, and not played any more");
    link.let_go("r", &mailbox, Finished::Completed);
    link.beat("w");
    assert_eq!(after_a_cut.next().await.unwrap().slots, 0);
}

#[tokio::test]
async fn a_slot_is_granted_again_when_a_run_is_let_go_of_but_not_while_draining() {
    let link = Arc::new(Link::new(1));
    let mailbox = link.hold("r", "l");
    let mut requests = link.open(v1::Hello::default());
    assert_eq!(requests.next().await.unwrap().slots, 0);
    link.let_go("r", &mailbox, Finished::Completed);
    assert_eq!(requests.next().await.unwrap().slots, 1);
    link.empty().await;
    link.drain();
    let last = requests.next().await.unwrap();
    assert!(last.drain && last.slots == 0);
    link.beat("w");
    assert_eq!(requests.next().await.unwrap().heartbeat.unwrap().completed_delta, 1);
}
