//! Shows each rule a tidy and an untidy repository, and at last the real one.

use std::collections::BTreeMap;
use std::path::Path;

use super::text::code_only;
use super::*;

pub(super) fn repo(files: &[(&str, &str)]) -> Repo {
    let files: BTreeMap<String, String> =
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    Repo { files, ..Repo::default() }
}

/// The findings of `rule` as `path:line` pairs.
pub(super) fn places(rule: fn(&Repo) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<(String, usize)> {
    rule(&repo(files)).into_iter().map(|finding| (finding.path, finding.line)).collect()
}

fn lines(count: usize) -> String {
    "// line\n".repeat(count)
}

#[test]
fn a_file_of_800_lines_passes_and_801_do_not() {
    assert!(places(size::check, &[("a.rs", &lines(800))]).is_empty());
    assert_eq!(places(size::check, &[("a.rs", &lines(801))]), [("a.rs".to_owned(), 0)]);
}

#[test]
fn a_comment_of_120_columns_passes_and_121_do_not() {
    let comment = |columns: usize| format!("    /// {}w w\n", "w".repeat(columns - 11));
    let wide = [("a.rs", &comment(121)[..]), ("b.rs", &comment(120)[..])];
    assert_eq!(places(columns::check, &wide), [("a.rs".to_owned(), 1)]);
    let code = format!("let text = \"{}\";\n// | {} |\n", "w w".repeat(50), "w ".repeat(70));
    assert!(places(columns::check, &[("a.rs", &code)]).is_empty(), "neither code nor tables");
}

#[test]
fn a_listed_file_may_shrink_but_not_grow_and_the_list_follows() {
    let list = "xtask/tidy/long-files.txt";
    assert!(places(size::check, &[("a.rs", &lines(900)), (list, "900 a.rs\n")]).is_empty());
    assert_eq!(places(size::check, &[("a.rs", &lines(901)), (list, "900 a.rs\n")]), [("a.rs".to_owned(), 0)]);
    assert_eq!(places(size::check, &[("a.rs", &lines(850)), (list, "900 a.rs\n")]), [(list.to_owned(), 0)]);
    let shorter = repo(&[("a.rs", &lines(850)), ("b.rs", &lines(10)), (list, "# why\n900 a.rs\n900 b.rs\n")]);
    assert_eq!(size::tightened(&shorter).1, "# why\n850 a.rs\n");
}

#[test]
fn tightening_never_raises_a_figure() {
    let grown = repo(&[("a.rs", &lines(950)), ("xtask/tidy/long-files.txt", "900 a.rs\n")]);
    assert_eq!(size::tightened(&grown).1, "900 a.rs\n");
}

#[test]
fn unsafe_counts_in_code_only() {
    let talk = "//! unsafe\n/* unsafe */ const A: &str = \"unsafe\"; const B: &str = r#\"unsafe \" unsafe\"#;\n";
    assert!(places(unsafety::check, &[("a.rs", talk)]).is_empty());
    let act = "//! Acts.\nunsafe fn f() { unsafe { g() } }\n";
    assert_eq!(places(unsafety::check, &[("a.rs", act)]), [("a.rs".to_owned(), 0)]);
    assert!(places(unsafety::check, &[("a.rs", act), ("xtask/tidy/unsafe-files.txt", "2 a.rs\n")]).is_empty());
}

#[test]
fn code_only_survives_quotes_lifetimes_and_nesting() {
    let source = "fn f<'a>(c: char) -> &'a str { if c == '\"' || c == '\\'' { \"x\\\"y\" } else { 'e: loop {} } } // z\n/* /* */ q */ end";
    let code = code_only(source);
    assert!(code.contains("fn f<'a>(c: char) -> &'a str { if c =="), "{code}");
    assert!(!code.contains('x') && !code.contains('q') && !code.contains('z'), "{code}");
    assert!(code.ends_with("end") && code.lines().count() == 2, "{code}");
}

#[test]
fn left_overs_and_machine_paths_are_found() {
    let left_over = format!("//! A.\nfn f() {{ {}1) }}\n", concat!("db", "g!("));
    assert_eq!(places(words::check, &[("a.rs", &left_over)]), [("a.rs".to_owned(), 2)]);
    let path = format!("see {}user/notes\n", concat!("/ho", "me/"));
    assert_eq!(places(words::check, &[("a.md", &path)]), [("a.md".to_owned(), 1)]);
    let mark = format!("# {}: later\n", concat!("FIX", "ME"));
    assert_eq!(places(words::check, &[("run", &mark)]), [("run".to_owned(), 1)]);
    let harmless = format!("docs{}x and ~{}y\n", concat!("/ho", "me/"), concat!("/wo", "rk/"));
    assert!(places(words::check, &[("a.md", &harmless)]).is_empty());
}

#[test]
fn a_crate_imports_only_what_its_row_allows() {
    let page =
        ("docs/architecture.md", "| crate | may import | why |\n|---|---|---|\n| `lsm` | `model`, `io` | one tree |\n");
    let manifest = |dependencies: &str| format!("[package]\nname = \"weir-lsm\"\n[dependencies]\n{dependencies}");
    let good = manifest("weir-io.workspace = true\nlz4 = \"1\"\n[dev-dependencies]\nweir-node.workspace = true\n");
    assert!(places(arrows::check, &[page, ("crates/lsm/Cargo.toml", &good)]).is_empty());
    for bad in [
        "weir-node.workspace = true",
        "weir-node = { workspace = true }",
        "tokio = \"1\" # why",
        "lz4 = { version = \"1\", features = [\n  \"std\",\n] }\ntokio = \"1\"",
        "[target.'cfg(unix)'.dependencies]\ntokio = \"1\"",
        "[build-dependencies]\ntokio = \"1\"",
        "[dependencies.tokio]\nversion = \"1\"",
    ] {
        let found = places(arrows::check, &[page, ("crates/lsm/Cargo.toml", &manifest(bad))]);
        assert_eq!(found, [("crates/lsm/Cargo.toml".to_owned(), 0)], "{bad}");
    }
    let no_header = ("crates/lsm/Cargo.toml", "dependencies.tokio = \"1\"\n");
    assert_eq!(places(arrows::check, &[page, no_header]), [("crates/lsm/Cargo.toml".to_owned(), 0)]);
    let unknown = places(arrows::check, &[page, ("crates/new/Cargo.toml", "[package]\n")]);
    assert_eq!(unknown, [("crates/new/Cargo.toml".to_owned(), 0)]);
}

#[test]
fn links_resolve_from_the_file_they_stand_in() {
    let good = "[a](testing.md#x) [b](../run) [c](https://example.org/x) [d](#here) `[e](no)`\n```\n[f](no)\n```\n";
    let files = [("docs/a.md", good), ("docs/testing.md", ""), ("run", "")];
    assert!(places(documents::check, &files).is_empty());
    for bad in ["[a](run)", "[a](../../run)", "[a](/run)", "[a](testing)"] {
        let files = [("docs/a.md", bad), ("docs/testing.md", ""), ("run", "")];
        assert_eq!(places(documents::check, &files), [("docs/a.md".to_owned(), 1)], "{bad}");
    }
}

#[test]
fn a_format_page_is_named_by_its_codec_and_sources_introduce_themselves() {
    let page = ("docs/format/log.md", "# Log\n");
    assert_eq!(places(documents::check, &[page]), [("docs/format/log.md".to_owned(), 0)]);
    assert!(places(documents::check, &[page, ("a.rs", "//! See `docs/format/log.md`.\n")]).is_empty());
    assert_eq!(places(documents::check, &[("a.rs", "fn f() {}\n")]), [("a.rs".to_owned(), 1)]);
}

#[test]
fn every_metric_is_on_its_page_and_no_other() {
    let page = ("docs/metrics.md", "| `weir_device_bytes_total` | `class` |\n");
    let source = |name| ("crates/gateway/src/admin/metrics/a.rs", name);
    assert!(places(documents::check, &[page, source("//! A.\nx(\"weir_device\", \"Bytes\");\n")]).is_empty());
    let two = source("//! A.\nx(\"weir_device\");\nx(\"weir_device_operations\");\n");
    assert_eq!(places(documents::check, &[page, two]), [("crates/gateway/src/admin/metrics/a.rs".to_owned(), 3)]);
    assert_eq!(places(documents::check, &[page, source("//! A.\n")]), [("docs/metrics.md".to_owned(), 1)]);
}

#[test]
fn what_is_cited_has_a_row() {
    let papers = (
        "docs/papers.md",
        "| FX-1 | units | - |\n| SI-13, SI-14 | traps | - |\n| CR-14 to CR-17 | no level 0 | - |\n| U-19 | crashes | - |\n| G4 | flips | - |\n",
    );
    let security = ("docs/security.md", "| S3 | secrets | - |\n");
    let found = |text: &str| places(citations::check, &[papers, security, ("a.rs", text), ("b.md", text)]);
    for good in ["FX-1", "SI-14", "CR-16", "U-19", "U-19b", "G4", "S3", "UTF-16", "S3-FIFO", "GPU-2", "C-x"] {
        assert_eq!(found(&format!("//! Because of {good}.\n")), [], "{good}");
    }
    for (prefix, number) in
        [("FX", "-2"), ("FX", "-E1"), ("SI", "-12"), ("CR", "-18"), ("U", "-2b"), ("G", "5"), ("S", "2")]
    {
        let wanted = [("a.rs".to_owned(), 2), ("b.md".to_owned(), 2)];
        assert_eq!(found(&format!("//! A.\n/// Because of ({prefix}{number}).\n")), wanted, "{prefix}{number}");
    }
    let message = format!("//! A.\nassert!(x, \"{}-2\");\n", "FX");
    assert_eq!(places(citations::check, &[papers, ("a.rs", &message)]), [("a.rs".to_owned(), 2)]);
    let variable = format!("//! A.\nlet {}9 = 1;\n", "S");
    assert_eq!(places(citations::check, &[papers, ("a.rs", &variable)]), []);
}

#[test]
fn tests_that_the_page_of_papers_names_are_there() {
    let page =
        ("docs/papers.md", "| FX-1 | a unit | [`cost.rs`](../cost.rs) | [`units_are_rounded_up`](../cost.rs) |\n");
    assert!(places(citations::check, &[page, ("cost.rs", "//! A.\nfn units_are_rounded_up() {}\n")]).is_empty());
    let found = places(citations::check, &[page, ("cost.rs", "//! A.\nfn units_are_rounded_up_or_down() {}\n")]);
    assert_eq!(found, [("docs/papers.md".to_owned(), 1)]);
}

#[test]
fn a_file_of_tests_is_part_of_a_program() {
    let manifest = "[package]\nname = \"weir-a\"\nautotests = false\n[[test]]\nname = \"apart\"\n";
    let files = |manifest, main| {
        let file = |name| (name, "//! A.\n");
        let tests = [file("a/tests/apart.rs"), file("a/tests/part.rs"), file("a/tests/folder/mod.rs")];
        places(programs::check, &[&tests[..], &[("a/Cargo.toml", manifest), ("a/tests/main.rs", main)]].concat())
    };
    assert!(files(manifest, "mod folder;\nmod part;\n").is_empty());
    assert_eq!(files(manifest, "mod folder;\n"), [("a/tests/part.rs".to_owned(), 0)]);
    assert_eq!(files(manifest, "mod part;\n"), [("a/tests/folder/mod.rs".to_owned(), 0)]);
    assert!(files("[package]\nname = \"weir-a\"\n", "").is_empty(), "cargo finds them");
}

#[test]
fn an_example_in_the_documentation_runs() {
    let without = "[lib]\ndoctest = false\n";
    let files = |manifest, source| places(programs::check, &[("a/Cargo.toml", manifest), ("a/src/lib.rs", source)]);
    let example = "//! A.\n//!\n//! ```text\n//! a drawing\n//! ```\n//!\n//! ```\n//! assert!(true);\n//! ```\n";
    assert_eq!(files(without, example), [("a/src/lib.rs".to_owned(), 7)]);
    assert!(files("[lib]\n", example).is_empty(), "cargo finds it");
    assert!(files(without, "//! A.\n\n/// ```text\n/// a drawing\n/// ```\nconst A: &str = \"```\";\n").is_empty());
}

#[test]
fn dependencies_come_from_the_public_registry() {
    let public = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n";
    assert!(places(sources::check, &[("Cargo.lock", public)]).is_empty());
    let git = "source = \"git+https://example.org/x#abc\"\n";
    assert_eq!(places(sources::check, &[("Cargo.lock", git)]), [("Cargo.lock".to_owned(), 1)]);
    assert_eq!(
        places(sources::check, &[(".cargo/config.toml", "[source.x]\n")]),
        [(".cargo/config.toml".to_owned(), 1)]
    );
}

#[test]
fn the_repository_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lives in the repository");
    let findings = check(&Repo::load(root).expect("git lists the files"));
    let text: Vec<String> = findings.iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "\n{}", text.join("\n"));
}
