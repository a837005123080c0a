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
        for (number, line) in self.text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let fence = line.trim_start().strip_prefix("```");
            match (&mut open, fence) {
                (None, Some(info)) => {
                    let block = Block { line: number + 1, info: info.trim().to_owned(), text: String::new() };
                    open = Some((indent, block));
                }
                (Some(_), Some("")) => blocks.extend(open.take().map(|(_, block)| block)),
                (Some((indent, block)), _) => {
                    block.text.push_str(line.get(*indent..).unwrap_or_else(|| line.trim_start()));
                    block.text.push('\n');
                }
                (None, None) => {}
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
fn blocks_are_found_with_their_lines_also_in_lists() {
    let text = "a\n```sh run\nls\n```\n- b\n  ```yaml\n  a:\n    b\n  ```\n".to_owned();
    let page = Page { path: "x.md".into(), text };
    let block = |line, info: &str, text: &str| Block { line, info: info.to_owned(), text: text.to_owned() };
    assert_eq!(page.blocks(), [block(2, "sh run", "ls\n"), block(6, "yaml", "a:\n  b\n")]);
    assert!(!page.prose().contains("ls") && page.prose().contains("- b"));
}
