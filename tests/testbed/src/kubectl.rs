//! kubectl, as a person would use it.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};

use crate::demo::say;

/// kubectl on one cluster.
pub(crate) struct Kubectl {
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
}

impl Kubectl {
    /// Waits until the sample's Service is there again.
    pub(crate) fn wait_for_service(&self) -> Result<()> {
        let services = ["get", "services", "-A", "-l", "belong-to=user-workloads"];
        self.appears(&[services.as_slice(), &["-o", "name"]].concat())
            .context("the Service did not come back")?;
        self.run(&services)
    }

    /// Waits until a command prints something.
    pub(crate) fn appears(&self, arguments: &[&str]) -> Result<()> {
        for _ in 0..600 {
            if !self.output(arguments)?.is_empty() {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        bail!("kubectl {} prints nothing", arguments.join(" "))
    }

    /// Runs the command without a word.
    pub(crate) fn quietly(&self, arguments: &[&str]) -> Result<()> {
        self.output(arguments).map(drop)
    }

    fn output(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .context("run kubectl")?;
        if !output.status.success() {
            bail!("kubectl {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Shows the command and what it prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<()> {
        say(&format!("$ kubectl {}", arguments.join(" ")));
        for line in self.output(arguments)?.lines() {
            say(line);
        }
        Ok(())
    }
}
