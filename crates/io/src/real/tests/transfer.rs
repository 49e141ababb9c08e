//! One transfer, step by step: short, interrupted and failed ones.

use rustix::io::Errno;

use super::super::transfer::{Handle, SECTOR, Step, Transfer, Verb};
use super::*;

fn transfer(verb: Verb, direct: bool) -> Transfer {
    let fd = std::fs::File::open("/dev/null").unwrap().into();
    let path = "/data/table".into();
    let handle = Handle { fd, path, direct, aligned: direct, write: true, dsync: false, read_unit: SECTOR };
    Transfer::new(Arc::new(handle), verb, 8192, AlignedBuf::with_len(4 * PAGE))
}

fn again(step: Step) -> bool {
    matches!(step, Step::Again)
}

fn finished(step: Step) -> crate::Result<()> {
    match step {
        Step::Again => panic!("not finished"),
        Step::Finished(result) => result,
    }
}

#[test]
fn interruptions_and_cancellations_change_nothing() {
    for verb in [Verb::Read, Verb::Write, Verb::Sync] {
        let mut transfer = transfer(verb, true);
        for error in [Errno::INTR, Errno::CANCELED, Errno::AGAIN] {
            assert!(again(transfer.advance(Err(error))));
            assert_eq!((transfer.position(), transfer.rest().len()), (8192, 4 * PAGE));
        }
    }
}

#[test]
fn a_short_read_goes_on_and_stops_at_the_end_of_the_file() {
    let mut buffered = transfer(Verb::Read, false);
    assert!(again(buffered.advance(Ok(100))));
    assert_eq!((buffered.position(), buffered.rest().len()), (8292, 4 * PAGE - 100));
    finished(buffered.advance(Ok(0))).unwrap();
    let mut direct = transfer(Verb::Read, true);
    assert!(again(direct.advance(Ok(PAGE))));
    assert_eq!(direct.position(), 8192 + PAGE as u64);
    // The kernel would refuse to go on from the middle of a sector, so this is the end.
    finished(direct.advance(Ok(100))).unwrap();
}

#[test]
fn a_short_write_goes_on_from_a_sector() {
    let mut direct = transfer(Verb::Write, true);
    assert!(again(direct.advance(Ok(1000))));
    assert_eq!((direct.position(), direct.rest().len()), (8192 + 512, 4 * PAGE - 512));
    finished(direct.advance(Ok(4 * PAGE - 512))).unwrap();
    let mut buffered = transfer(Verb::Write, false);
    assert!(again(buffered.advance(Ok(1000))));
    assert_eq!(buffered.position(), 9192);
    assert_eq!(finished(buffered.advance(Ok(0))).unwrap_err().kind(), ErrorKind::Device);
}

#[test]
fn errors_say_what_where_and_of_which_kind() {
    let mut write = transfer(Verb::Write, true);
    assert!(again(write.advance(Ok(PAGE))));
    let error = finished(write.advance(Err(Errno::NOSPC))).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::NoSpace, Some(8192 + PAGE as u64)));
    assert!(error.to_string().starts_with("cannot write /data/table at offset 12288: "), "{error}");
    let error = finished(transfer(Verb::Sync, true).advance(Err(Errno::IO))).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::Device, None));
    assert_eq!(
        finished(transfer(Verb::Write, true).advance(Err(Errno::DQUOT))).unwrap_err().kind(),
        ErrorKind::NoSpace
    );
}
