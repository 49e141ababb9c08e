//! The machine itself: files through the kernel, the monotonic clock, worker threads.
