use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::controller::{choose, moved, settings};
use super::*;

const DISK: Device = Device { major: 254, minor: 0 };
const V1: &str = "37 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                  38 31 0:31 / /sys/fs/cgroup/blk\\040io rw,relatime shared:9 - cgroup cgroup rw,blkio\n\
                  39 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
const V2: &str = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

#[test]
fn the_old_controller_is_taken_where_it_is_mounted_below_our_own_group() {
    let own = "8:pids:/x\n7:blkio:/user/me\n0::/\n";
    let found = choose(V1, own, |_| String::new()).expect("blkio is there");
    assert_eq!(found, Controller { version: Version::One, parent: "/sys/fs/cgroup/blk io/user/me".into() });
    let found = choose(V1, "7:blkio:/\n", |_| "io".into()).expect("blkio is there");
    assert_eq!(found.parent, PathBuf::from("/sys/fs/cgroup/blk io"));
}

#[test]
fn the_new_one_only_where_it_has_io() {
    let found = choose(V2, "0::/user.slice\n", |_| "cpuset cpu io memory".into()).expect("io is there");
    assert_eq!(found, Controller { version: Version::Two, parent: "/sys/fs/cgroup".into() });
    assert_eq!(choose(V2, "", |_| "cpuset cpu memory".into()), None);
    assert_eq!(choose("", "", |_| "io".into()), None);
    assert_eq!(choose("nonsense - \n\n", "", |_| "io".into()), None);
}

#[test]
fn what_is_written() {
    let caps = Caps::from_mbps(Some(6.7), None);
    assert_eq!(caps, Caps { read: 6_700_000, ..Caps::NONE });
    let [(read, first), (write, second)] = &settings(Version::One, DISK, caps)[..] else { panic!("two files") };
    assert_eq!((*read, first.as_str()), ("blkio.throttle.read_bps_device", "254:0 6700000"));
    assert_eq!((*write, second.as_str()), ("blkio.throttle.write_bps_device", "254:0 0"));
    assert_eq!(settings(Version::Two, DISK, caps), [("io.max", "254:0 rbps=6700000 wbps=max".to_owned())]);
    assert!(Caps::from_mbps(None, Some(-1.0)).is_none());
}

#[test]
fn counters_of_this_disk_alone() {
    let one = "254:0 Read 12\n254:0 Write 34\n254:0 Sync 9\n8:0 Read 77\nTotal 123\n";
    assert_eq!(moved(Version::One, DISK, one), Moved { read: 12, written: 34 });
    let two = "8:0 rbytes=1 wbytes=2\n254:0 rbytes=12 wbytes=34 rios=1 wios=2 dbytes=0 dios=0\n";
    assert_eq!(moved(Version::Two, DISK, two), Moved { read: 12, written: 34 });
    assert_eq!(moved(Version::Two, DISK, ""), Moved::default());
}

#[test]
fn only_groups_of_dead_makers_are_left_over() {
    let alive = |process: &str| process == "7";
    assert!(is_left_over("weir-bench-8", alive));
    assert!(!is_left_over("weir-bench-7", alive));
    assert!(
        !is_left_over("weir-bench-", alive) && !is_left_over("weir-bench-8x", alive) && !is_left_over("cpu", alive)
    );
}

#[test]
fn numbers_of_disks() {
    assert_eq!(device::parse("254:0\n"), Some(DISK));
    assert_eq!(device::parse("254"), None);
    assert_eq!(DISK.to_string(), "254:0");
}

#[test]
fn where_there_is_no_disk_the_error_says_what_to_do() {
    let error = Device::below(Path::new("/proc")).expect_err("no disk below /proc").to_string();
    assert!(error.contains("--dir") && error.contains("caps"), "{error}");
}

/// The kernel itself, if possible (we are root, there is a controller, and a disk below the build directory); otherwise
/// nothing is tested.
#[test]
fn a_direct_write_takes_as_long_as_its_cap_says() {
    let program = std::env::current_exe().expect("a test has a program");
    let dir = program.parent().expect("which is in a directory");
    let throttle = match Throttle::create(dir) {
        Ok(throttle) => throttle,
        Err(error) => {
            eprintln!("not tested: {error}");
            return;
        }
    };
    let file = dir.join(format!("throttled-{}", std::process::id()));
    throttle.cap(Caps { write: 2 << 20, ..Caps::NONE }).expect("a cap can be set");
    // The child has a group of its own, so that this process keeps its speed. It waits for its standard input before it
    // writes 1 MiB.
    let script = format!("read go; exec dd if=/dev/zero of='{}' bs=64k count=16 oflag=direct 2>&1", file.display());
    let mut child =
        Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("sh");
    throttle.admit(child.id()).expect("the child can be put under the throttle");
    let begin = Instant::now();
    child.stdin.take().expect("piped").write_all(b"go\n").expect("the child reads");
    let wrote = child.wait().expect("it ends").success();
    let took = begin.elapsed();
    let (moved, group) = (throttle.moved(), throttle.group.clone());
    drop(throttle);
    let _ = fs::remove_file(&file);
    assert!(!group.exists(), "{} was left", group.display());
    if !wrote {
        eprintln!("not tested: no direct writes in {}", dir.display());
        return;
    }
    assert!(moved.expect("counters").written >= 1 << 20);
    // A lower bound: a busy machine makes the time longer, and nothing makes it shorter. The kernel lets a slice of 100
    // ms pass at once.
    assert!(took >= Duration::from_millis(250), "{took:?} for 1 MiB at 2 MiB/s");
}
