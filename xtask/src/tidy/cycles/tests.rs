//! Tests of the rule on small crates.

use super::super::tests::{places, repo};
use super::*;

/// The files that are in cycles.
fn cyclic(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let files: Vec<(String, &str)> =
        files.iter().map(|(path, text)| (format!("crates/x/src/{path}.rs"), *text)).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let graph = graphs(&repo(&files)).remove("crates/x/src").expect("the crate has files");
    let short = |path: String| path.trim_start_matches("crates/x/src/").trim_end_matches(".rs").to_owned();
    components::cyclic(&graph).into_iter().map(|files| files.into_iter().map(short).collect()).collect()
}

#[test]
fn two_files_that_name_one_another_are_a_cycle_however_they_do() {
    let root = ("lib", "mod a; mod b;");
    let defines = "pub struct A;";
    for names in
        ["use crate::b::B;", "use super::b::{B};", "fn f(_: crate::b::B) {}", "use super::b;\nfn f(_: b::B) {}"]
    {
        let a = format!("{defines}\n{names}");
        let b = "use crate::a::A;\npub struct B;";
        assert_eq!(cyclic(&[root, ("a", &a), ("b", b)]), [["a", "b"]], "{names}");
        assert!(cyclic(&[root, ("a", &a), ("b", "pub struct B;")]).is_empty(), "{names}");
    }
}

#[test]
fn talk_and_tests_do_not_count() {
    let root = ("lib", "mod a; mod b; #[cfg(test)] mod checks;");
    let b = ("b", "use crate::a::A;\npub struct B;");
    for harmless in [
        "//! [`crate::b::B`]",
        "const X: &str = \"crate::b::B\";",
        "#[cfg(test)]\nuse crate::b::B;",
        "#[cfg(test)]\n#[allow(x)]\nmod tests { use crate::b::B; }",
        "struct S { #[cfg(test)] b: crate::b::B, c: u8 }",
        "#[cfg(test)]\npub(crate) fn f(x: [u8; 2]) -> crate::b::B { crate::b::B }",
    ] {
        let a = format!("{harmless}\npub struct A;");
        assert!(cyclic(&[root, ("a", &a), b]).is_empty(), "{harmless}");
    }
    let a = "#[cfg(test)]\nfn f() {}\nuse crate::b::B;\npub struct A;";
    assert_eq!(cyclic(&[root, ("a", a), b]), [["a", "b"]], "only one item is for tests");
    let checks = ("checks", "use crate::a::A; pub struct Check;");
    let a = ("a", "pub struct A; fn f(_: crate::checks::Check) {}");
    assert!(cyclic(&[root, a, ("b", ""), checks]).is_empty());
}

#[test]
fn a_re_export_leads_to_what_is_defined() {
    let root = ("lib", "mod a; mod b; pub use a::A; pub use self::b::{inner::B, C as D};");
    let b = ("b/mod", "pub mod inner; pub struct C;");
    let a = ("a", "use crate::B; pub struct A;");
    assert_eq!(cyclic(&[root, a, b, ("b/inner", "use crate::A; pub struct B;")]), [["a", "b/inner"]]);
    assert!(cyclic(&[root, a, b, ("b/inner", "use crate::D; pub struct B;")]).is_empty());
    let a = ("a", "use crate::D; pub struct A;");
    let inner = ("b/inner", "use crate::A; pub struct B;");
    assert_eq!(cyclic(&[root, a, b, inner]), [["a", "b/inner", "b/mod"]], "a part of `b` needs `a`, which needs `b`");
}

#[test]
fn a_part_may_know_the_whole_and_parts_may_not_know_each_other() {
    let root = ("lib", "mod a;");
    let a = ("a", "mod b; mod c; use self::b::B; pub use self::c::C; pub struct A;");
    let (b, c) = (("a/b", "pub struct B; impl super::A {}"), ("a/c", "use super::A; pub struct C;"));
    assert!(cyclic(&[root, a, b, c]).is_empty());
    let (b, c) = (("a/b", "use super::C; pub struct B;"), ("a/c", "use super::B; pub struct C;"));
    assert_eq!(cyclic(&[root, a, b, c]), [["a/b", "a/c"]]);
}

#[test]
fn a_module_counts_by_what_is_named_through_it() {
    let root = ("lib", "mod a; mod b;");
    let b = ("b/mod", "pub mod leaf; mod other; fn private() {}");
    let other = ("b/other", "use crate::a::A;");
    let a = ("a", "use crate::b; fn f(_: b::leaf::Leaf) {} pub struct A;");
    assert!(cyclic(&[root, a, b, other, ("b/leaf", "pub struct Leaf;")]).is_empty());
    let a = ("a", "use crate::b::*; pub struct A;");
    assert_eq!(cyclic(&[root, a, b, other, ("b/leaf", "")]), [["a", "b/mod", "b/other"]], "a glob may name anything");
}

#[test]
fn inline_modules_belong_to_their_file_and_macros_to_where_they_are() {
    let root = ("lib", "mod a; mod b;");
    let a = ("a", "pub mod inner { use super::super::b::B; } pub struct A;");
    assert_eq!(cyclic(&[root, a, ("b", "use crate::a::A; pub struct B;")]), [["a", "b"]]);
    let a = ("a", "#[macro_export]\nmacro_rules! m { () => {} }\nuse crate::b::B;");
    for names in ["crate::m!();", "use crate::m;"] {
        let b = format!("pub struct B; {names}");
        assert_eq!(cyclic(&[root, a, ("b", &b)]), [["a", "b"]], "{names}");
    }
}

#[test]
fn a_finding_names_a_shortest_cycle_and_the_list_may_only_shrink() {
    let files = [
        ("crates/x/src/lib.rs", "mod a; mod b; mod c;"),
        ("crates/x/src/a.rs", "pub struct A;\nuse crate::{b::B, c::C};"),
        ("crates/x/src/b.rs", "pub struct B;\nuse crate::c::C;"),
        ("crates/x/src/c.rs", "pub struct C;\nuse crate::a::A;"),
    ];
    let findings = check(&repo(&files));
    assert_eq!(findings[0].path, "crates/x/src");
    let (cycle, place) = (&findings[1].message, (findings[1].path.as_str(), findings[1].line));
    assert_eq!(place, ("crates/x/src/a.rs", 2));
    assert!(cycle.ends_with("in a cycle: a.rs -> c.rs -> a.rs"), "{cycle}");
    let listed = |list: &'static str| [&files[..], &[(LIST, list)]].concat();
    assert!(places(check, &listed("3 crates/x/src\n")).is_empty());
    assert_eq!(places(check, &listed("2 crates/x/src\n")).len(), 2);
    assert_eq!(places(check, &listed("4 crates/x/src\n")), [(LIST.to_owned(), 0)]);
    assert_eq!(tightened(&repo(&listed("# why\n4 crates/x/src\n"))).1, "# why\n3 crates/x/src\n");
    let elsewhere = [("crates/y/src/lib.rs", "use crate::b::B; pub struct A;"), ("crates/z/src/b.rs", "")];
    assert!(places(check, &elsewhere).is_empty());
}
