//! `docs/evidence.md` names what there is: every file, test, model and mutation, and no mutation is
//! left out or stands apart from the model that notices it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(root().join("docs/evidence.md")).unwrap()
}

/// What stands between backticks, outside of blocks of code.
fn names(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Whether the source has a test or a model of this name, a model perhaps for each algorithm.
fn has(source: &str, name: &str) -> bool {
    source.contains(&format!("fn {name}(")) || source.contains(&format!("!({name},"))
}

/// The model of each mutation, as the page names it.
fn mutations() -> Vec<(String, String)> {
    let folder = root().join("loom-tests/mutants");
    let files = folder.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mutation = |path: std::path::PathBuf| {
        let patch = fs::read_to_string(&path).unwrap();
        let mut words = patch.lines().next().unwrap().split_whitespace().skip(1);
        let (file, model) = (words.next().unwrap(), words.next().unwrap());
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, format!("loom-tests/tests/{file}.rs::{model}"))
    };
    files.map(mutation).collect()
}

#[test]
fn every_name_in_the_page_exists() {
    let named = names(&page());
    let paths: Vec<_> = named.iter().filter(|name| name.contains(['/', '.'])).collect();
    assert!(paths.len() > 100, "{}", paths.len());
    for name in paths {
        let (file, test) = match name.split_once("::") {
            Some((file, test)) => (file, Some(test)),
            None => (name.split(' ').next().unwrap(), None),
        };
        let path = root().join(file);
        assert!(path.exists(), "{name}: no such file");
        if let Some(test) = test {
            let source = fs::read_to_string(&path).unwrap();
            assert!(has(&source, test), "{name}: no such test");
        }
    }
}

#[test]
fn every_mutation_is_named_beside_its_model() {
    let page = page();
    let parts: Vec<BTreeSet<String>> =
        page.split("\n# ").map(|part| names(part).into_iter().collect()).collect();
    let mutations = mutations();
    assert!(mutations.len() > 50, "{}", mutations.len());
    for (mutation, model) in &mutations {
        let beside = parts.iter().any(|part| part.contains(mutation) && part.contains(model));
        assert!(beside, "{mutation} does not stand beside {model}");
    }
    let known: BTreeSet<_> = mutations.iter().map(|(name, _)| name).collect();
    for part in page.split("Mutations: ").skip(1) {
        let listed = names(part.split("\n\n").next().unwrap());
        assert!(!listed.is_empty());
        assert!(listed.iter().all(|name| known.contains(name)), "{listed:?}");
    }
}

#[test]
fn every_model_is_named() {
    let named: BTreeSet<_> = names(&page()).into_iter().collect();
    let folder = root().join("loom-tests/tests");
    let mut count = 0;
    for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
        let source = fs::read_to_string(&path).unwrap();
        let plain = source.split("#[test]").skip(1).filter_map(|rest| {
            rest.trim_start().strip_prefix("fn ").and_then(|rest| rest.split('(').next())
        });
        let many = source
            .split("\nfor_each_algorithm!(")
            .skip(1)
            .map(|rest| rest.split(',').next().unwrap());
        let file = path.file_name().unwrap().to_str().unwrap();
        for model in plain.chain(many).filter(|model| !model.contains('$')) {
            count += 1;
            let name = format!("loom-tests/tests/{file}::{model}");
            assert!(named.contains(&name), "{name} is not in the page");
        }
    }
    assert!(count > 40, "{count}");
}
