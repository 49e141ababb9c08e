//! Standard output and standard error: every module of this program has the macros of [`weir_scenario::out`].

pub use weir_scenario::out::write;

/// See [`weir_scenario::print`].
macro_rules! print {
    ($($text:tt)+) => {
        weir_scenario::print!($($text)+)
    };
}

/// See [`weir_scenario::println`].
macro_rules! println {
    ($($text:tt)+) => {
        weir_scenario::println!($($text)+)
    };
}

/// See [`weir_scenario::eprint`].
macro_rules! eprint {
    ($($text:tt)+) => {
        weir_scenario::eprint!($($text)+)
    };
}

/// See [`weir_scenario::eprintln`].
macro_rules! eprintln {
    ($($text:tt)+) => {
        weir_scenario::eprintln!($($text)+)
    };
}
