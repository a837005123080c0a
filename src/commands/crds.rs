//! `kantor crds`: the custom resource definitions.

use std::{fmt::Write as _, path::PathBuf};

use anyhow::Context as _;
use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Print the custom resource definitions as YAML, to be installed with
/// `kantor crds | kubectl apply --server-side -f -`.
#[derive(Args, Debug)]
pub struct CrdsArgs {
    /// Write one file per kind into this folder instead of printing.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &CrdsArgs) -> anyhow::Result<()> {
    let Some(dir) = &args.dir else {
        let mut text = String::new();
        for (_, yaml) in files()? {
            write!(text, "---\n{yaml}")?;
        }
        return super::print(&text);
    };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
    for (name, yaml) in files()? {
        let path = dir.join(name);
        std::fs::write(&path, yaml).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Name and content of the file of each kind.
pub fn files() -> anyhow::Result<Vec<(String, String)>> {
    kantor_api::crds().iter().map(|crd| Ok((file_name(crd), yaml(crd)?))).collect()
}

fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

fn yaml(crd: &CustomResourceDefinition) -> anyhow::Result<String> {
    serde_saphyr::to_string(crd).context("a definition cannot be written as YAML")
}
