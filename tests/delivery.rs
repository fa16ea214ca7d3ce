//! Whether the tests that `docs/delivery.md` names are there.

use std::fs;
use std::path::Path;

/// The last cell of each row of the tables whose last column is `test`.
fn tests_of_rows(page: &str) -> Vec<Vec<&str>> {
    let (mut rows, mut named) = (Vec::new(), false);
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match cells[..] {
            ["", .., "test", ""] => named = true,
            ["", .., last, ""] if named && !last.starts_with("---") => {
                rows.push(if last == "not there yet" { vec![] } else { last.split(", ").collect() });
            }
            ["", ..] => {}
            _ => named = false,
        }
    }
    rows
}

#[test]
fn every_test_that_the_page_on_delivery_names_is_there() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(folder.join("docs/delivery.md")).unwrap();
    let rows = tests_of_rows(&page);
    assert!(rows.len() > 30, "{rows:?}");
    for name in rows.concat() {
        let parts = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')?.split_once("::"));
        let (file, test) = parts.unwrap_or_else(|| panic!("{name} is not `file::test`"));
        let source = fs::read_to_string(folder.join(format!("tests/{file}.rs"))).unwrap_or_default();
        assert!(source.contains(&format!("#[test]\nfn {test}(")), "{name} is not there");
    }
}
