//! A directory of the version before is carried over: everything in it is there, and the version before refuses it
//! then.

use std::path::{Path, PathBuf};

use weir_io::Fs;
use weir_io::sim::DiskImage;

use super::world::{DIR, World, see, write};

/// A directory as the version before left it: of what that version wrote, only `FORMAT` has changed.
fn former(world: &World) -> PathBuf {
    let format = Path::new(DIR).join("FORMAT");
    world.sim.block_on(async {
        let node = world.open().await.expect("a new directory");
        write(&node, "default", b"in a table").await.expect("written");
        node.default_partition().await.expect("it is there").seal();
        world.rest().await;
        write(&node, "default", b"in the log").await.expect("written");
        world.close(node).await;
        for (path, bytes) in world.files("partitions").await {
            if path.extension().is_some_and(|extension| extension == "sst") {
                // The version in the footer.
                assert_eq!(bytes[bytes.len() - 16..][..4], 2_u32.to_le_bytes(), "{path:?}");
            }
        }
        assert_eq!(world.read(&format).await.as_deref(), Some(&b"weir 4\n"[..]));
        world.replace(&format, Some(b"weir 3\n")).await;
        world.fs.sync_dir(Path::new(DIR), super::world::TAG).await.expect("synced");
    });
    format
}

#[test]
fn a_directory_of_the_version_before_is_opened_and_says_so_from_then_on() {
    let world = World::new(1, &DiskImage::new());
    let format = former(&world);
    world.sim.block_on(async {
        assert_eq!(world.problems().await, Vec::<String>::new(), "a check finds nothing wrong");
        assert_eq!(world.read(&format).await.as_deref(), Some(&b"weir 3\n"[..]), "a check changes nothing");
        let node = world.open().await.expect("it is carried over");
        let seen = see(&node, &[]).await.expect("served");
        assert_eq!(seen["default"].1, [Some(b"in the log".to_vec())]);
        assert_eq!(world.read(&format).await.as_deref(), Some(&b"weir 4\n"[..]));
        world.close(node).await;
        world.replace(&format, Some(b"weir 2\n")).await;
        let refusal = world.open().await.err().expect("not that one").to_string();
        assert!(refusal.contains("weir 2") && refusal.contains("FORMAT"), "{refusal}");
    });
}

#[test]
fn on_a_full_disk_it_is_opened_all_the_same() {
    let world = World::new(2, &DiskImage::new());
    let format = former(&world);
    world.fs.set_free_bytes(0);
    world.sim.block_on(async {
        let node = world.open().await.expect("reading needs no space");
        let seen = see(&node, &[]).await.expect("served");
        assert_eq!(seen["default"].1, [Some(b"in the log".to_vec())]);
        assert_eq!(world.read(&format).await.as_deref(), Some(&b"weir 3\n"[..]));
        world.fs.set_free_bytes(u64::MAX >> 1);
        world.close(node).await;
        let node = world.open().await.expect("there is space again");
        assert_eq!(world.read(&format).await.as_deref(), Some(&b"weir 4\n"[..]));
        world.close(node).await;
    });
}
