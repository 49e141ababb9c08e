//! For wrappers of an [`Fs`](crate::Fs) or a [`File`](crate::File): forwards the calls that the wrapper does not
//! change.

/// Inside `impl Fs for Wrapper`: forwards the listed methods to the named field.
///
/// ```
/// use std::{path::Path, sync::Arc};
/// use weir_io::{File, Fs, Op, OpenOptions, Tag, forward_fs};
///
/// struct Wrapper {
///     inner: Arc<dyn Fs>,
/// }
///
/// impl Fs for Wrapper {
///     fn open(&self, path: &Path, options: OpenOptions, tag: Tag) -> Op<Arc<dyn File>> {
///         self.inner.open(path, OpenOptions { direct: false, ..options }, tag)
///     }
///     forward_fs!(inner: rename, hard_link, remove, create_dir_all, remove_dir, list, real_path, sync_dir, lock);
/// }
/// ```
#[macro_export]
macro_rules! forward_fs {
    ($inner:ident: $($method:ident),+ $(,)?) => { $( $crate::forward_fs!(@$method $inner); )+ };
    (@rename $inner:ident) => { $crate::forward_fs!(@two rename $inner); };
    (@hard_link $inner:ident) => { $crate::forward_fs!(@two hard_link $inner); };
    (@remove $inner:ident) => { $crate::forward_fs!(@one remove $inner ()); };
    (@create_dir_all $inner:ident) => { $crate::forward_fs!(@one create_dir_all $inner ()); };
    (@remove_dir $inner:ident) => { $crate::forward_fs!(@one remove_dir $inner ()); };
    (@sync_dir $inner:ident) => { $crate::forward_fs!(@one sync_dir $inner ()); };
    (@volume $inner:ident) => { $crate::forward_fs!(@one volume $inner std::sync::Arc<dyn $crate::Volume>); };
    (@real_path $inner:ident) => { $crate::forward_fs!(@one real_path $inner std::path::PathBuf); };
    (@list $inner:ident) => { $crate::forward_fs!(@one list $inner Vec<$crate::DirEntry>); };
    (@lock $inner:ident) => {
        fn lock(&self, path: &std::path::Path) -> $crate::Op<Box<dyn $crate::FsLock>> {
            self.$inner.lock(path)
        }
    };
    (@one $method:ident $inner:ident $output:ty) => {
        fn $method(&self, path: &std::path::Path, tag: $crate::Tag) -> $crate::Op<$output> {
            self.$inner.$method(path, tag)
        }
    };
    (@two $method:ident $inner:ident) => {
        fn $method(&self, from: &std::path::Path, to: &std::path::Path, tag: $crate::Tag) -> $crate::Op<()> {
            self.$inner.$method(from, to, tag)
        }
    };
}

/// Inside `impl File for Wrapper`: forwards the listed methods to the named field.
#[macro_export]
macro_rules! forward_file {
    ($inner:ident: $($method:ident),+ $(,)?) => { $( $crate::forward_file!(@$method $inner); )+ };
    (@read_at $inner:ident) => { $crate::forward_file!(@data read_at $inner); };
    (@write_at $inner:ident) => { $crate::forward_file!(@data write_at $inner); };
    (@allocate $inner:ident) => { $crate::forward_file!(@size allocate $inner); };
    (@reserve $inner:ident) => { $crate::forward_file!(@size reserve $inner); };
    (@set_len $inner:ident) => { $crate::forward_file!(@size set_len $inner); };
    (@sync $inner:ident) => {
        fn sync(&self, tag: $crate::Tag) -> $crate::Op<()> {
            self.$inner.sync(tag)
        }
    };
    (@sync_begins $inner:ident) => {
        fn sync_begins(&self) {
            self.$inner.sync_begins();
        }
    };
    (@len $inner:ident) => {
        fn len(&self) -> $crate::Op<u64> {
            self.$inner.len()
        }
    };
    (@data_end $inner:ident) => {
        fn data_end(&self, tag: $crate::Tag) -> $crate::Op<u64> {
            self.$inner.data_end(tag)
        }
    };
    (@is_direct $inner:ident) => {
        fn is_direct(&self) -> bool {
            self.$inner.is_direct()
        }
    };
    (@read_unit $inner:ident) => {
        fn read_unit(&self) -> usize {
            self.$inner.read_unit()
        }
    };
    (@data $method:ident $inner:ident) => {
        fn $method(&self, offset: u64, buf: $crate::AlignedBuf, tag: $crate::Tag) -> $crate::Op<$crate::AlignedBuf> {
            self.$inner.$method(offset, buf, tag)
        }
    };
    (@size $method:ident $inner:ident) => {
        fn $method(&self, len: u64, tag: $crate::Tag) -> $crate::Op<()> {
            self.$inner.$method(len, tag)
        }
    };
}
