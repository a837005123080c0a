//! The pages, and the fenced blocks in them.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A page.
pub struct Page {
    /// Its path from the root of the project.
    pub path: PathBuf,
    /// All of it.
    pub text: String,
}

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of its fence.
    pub line: usize,
    /// What stands behind the fence.
    pub info: String,
    /// The comment in the line before the fence, which readers of the page do not see.
    pub mark: Option<String>,
    /// What is in it.
    pub text: String,
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All pages of the project, those of the root first.
pub fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].into_iter().map(PathBuf::from).collect();
    let mut folders = vec![PathBuf::from("docs")];
    let mut found = vec![];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let path = folder.join(entry.unwrap().file_name());
            if root().join(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    paths.extend(found);
    paths
        .into_iter()
        .map(|path| Page { text: fs::read_to_string(root().join(&path)).unwrap(), path })
        .collect()
}

/// The page at `path`.
pub fn page(path: &str) -> Page {
    Page { path: path.into(), text: fs::read_to_string(root().join(path)).unwrap() }
}

impl Page {
    /// The fenced blocks, in order. Those in lists are indented.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = vec![];
        let mut open: Option<(usize, Block)> = None;
        let mut mark = None;
        for (number, line) in self.text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let fence = line.trim_start().strip_prefix("```");
            match (&mut open, fence) {
                (None, Some(info)) => {
                    let (line, info, mark) = (number + 1, info.trim().to_owned(), mark.take());
                    open = Some((indent, Block { line, info, mark, text: String::new() }));
                }
                (Some(_), Some("")) => blocks.extend(open.take().map(|(_, block)| block)),
                (Some((indent, block)), _) => {
                    block.text.push_str(line.get(*indent..).unwrap_or_else(|| line.trim_start()));
                    block.text.push('\n');
                }
                (None, None) => {
                    let comment =
                        line.trim().strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->"));
                    mark = comment.map(ToOwned::to_owned);
                }
            }
        }
        assert!(open.is_none(), "{}: a block is not closed", self.path.display());
        blocks
    }

    /// The page without its blocks.
    pub fn prose(&self) -> String {
        let mut inside = false;
        let mut prose = String::new();
        for line in self.text.lines() {
            let fence = line.trim_start().starts_with("```");
            if !inside && !fence {
                prose.push_str(line);
            }
            prose.push('\n');
            inside ^= fence;
        }
        prose
    }
}

#[test]
fn blocks_are_found_with_their_lines_and_marks_also_in_lists() {
    let text =
        "a\n<!-- run -->\n```sh\nls\n```\n- b\n  ```yaml\n  a:\n    b\n  ```\n<!-- x -->\n\n```sh\n```\n";
    let page = Page { path: "x.md".into(), text: text.to_owned() };
    let block = |line, info: &str, mark: Option<&str>, text: &str| Block {
        line,
        info: info.to_owned(),
        mark: mark.map(ToOwned::to_owned),
        text: text.to_owned(),
    };
    let expected =
        [block(3, "sh", Some("run"), "ls\n"), block(7, "yaml", None, "a:\n  b\n"), block(13, "sh", None, "")];
    assert_eq!(page.blocks(), expected);
    assert!(!page.prose().contains("ls") && page.prose().contains("- b"));
}
