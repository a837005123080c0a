//! Links lead to files and headings that exist.

use std::{collections::BTreeMap, path::Component};

use super::pages::{Page, page, pages, root};

/// Headings as the fragments by which they are linked to: as code hosts make them.
fn anchors(page: &Page) -> Vec<String> {
    let mut seen = BTreeMap::<String, usize>::new();
    let prose = page.prose();
    let headings = prose
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    headings
        .map(|heading| {
            let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
            let name: String = heading.trim().to_lowercase().chars().filter(kept).collect();
            let name = name.replace(' ', "-");
            let count = seen.entry(name.clone()).or_default();
            *count += 1;
            if *count == 1 { name } else { format!("{name}-{}", *count - 1) }
        })
        .collect()
}

/// What the links and pictures of a page lead to.
fn links(page: &Page) -> Vec<String> {
    let prose = page.prose();
    let mut links = vec![];
    for part in prose.split("](").skip(1) {
        links.extend(part.split_once(')').map(|(link, _)| link.trim().to_owned()));
    }
    links
}

/// Why a link of a page leads nowhere.
fn problem(from: &Page, link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, fragment) = link.split_once('#').unwrap_or((link, ""));
    let target =
        if path.is_empty() { from.path.clone() } else { from.path.parent().unwrap_or(&from.path).join(path) };
    // `a/../b` is `b`, also where `a` does not exist.
    let mut plain = std::path::PathBuf::new();
    for component in target.components() {
        match component {
            Component::ParentDir => {
                if !plain.pop() {
                    return Some(format!("{link} leads out of the project"));
                }
            }
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    if !root().join(&plain).exists() {
        return Some(format!("{link}: {} does not exist", plain.display()));
    }
    let is_page = plain.extension().is_some_and(|extension| extension == "md");
    let known = is_page && anchors(&page(plain.to_str()?)).iter().any(|anchor| anchor == fragment);
    (!fragment.is_empty() && !known).then(|| format!("{link}: {} has no such heading", plain.display()))
}

#[test]
fn links_lead_to_files_and_headings_that_exist() {
    let mut wrong = vec![];
    for page in pages() {
        let problems = links(&page).into_iter().filter_map(|link| problem(&page, &link));
        wrong.extend(problems.map(|problem| format!("{}: {problem}", page.path.display())));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_page_can_be_reached_from_the_index() {
    let index = page("docs/README.md");
    let mut reached = vec![index.path.clone()];
    let mut next = vec![index];
    while let Some(from) = next.pop() {
        for link in links(&from) {
            let path = link.split('#').next().unwrap_or_default();
            let Ok(target) = root().join(from.path.parent().unwrap()).join(path).canonicalize() else {
                continue;
            };
            let Ok(target) = target.strip_prefix(root().canonicalize().unwrap()).map(ToOwned::to_owned)
            else {
                continue;
            };
            if target.extension().is_some_and(|e| e == "md") && !reached.contains(&target) {
                reached.push(target.clone());
                next.push(page(target.to_str().unwrap()));
            }
        }
    }
    // Decisions are numbered, and not listed.
    let listed = pages().into_iter().map(|page| page.path).filter(|path| !path.starts_with("docs/decisions"));
    let lost: Vec<_> = listed.filter(|path| !reached.contains(path)).collect();
    assert!(lost.is_empty(), "no way leads from docs/README.md to {lost:?}");
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let page = Page { path: "docs/x.md".into(), text: "# A `b`, c\n".to_owned() };
    assert_eq!(anchors(&page), ["a-b-c"]);
    let readme = super::pages::page("docs/README.md");
    assert_eq!(problem(&readme, "../README.md"), None);
    assert_eq!(problem(&readme, "https://example.com/x#y"), None);
    for bad in ["nowhere.md", "../README.md#nowhere", "../../x", "#nowhere"] {
        assert!(problem(&readme, bad).is_some(), "{bad}");
    }
}
