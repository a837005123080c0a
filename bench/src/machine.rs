//! Where it is measured, and what processes use of it.

use std::{
    fs,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_mb: u64,
    pub kernel: String,
}

impl Machine {
    pub(crate) fn this() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let processor = field(&text("/proc/cpuinfo"), "model name").unwrap_or_default().to_owned();
        let memory = field(&text("/proc/meminfo"), "MemTotal").and_then(kilobytes).unwrap_or_default();
        Self {
            processor,
            cores: std::thread::available_parallelism().map_or(1, Into::into),
            memory_mb: memory / 1024,
            kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// How many processes wanted a processor during the last minute.
pub(crate) fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

/// What became of the processors' time since the machine started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ticks {
    all: f64,
    idle: f64,
    stolen: f64,
}

impl Ticks {
    /// By now.
    pub(crate) fn now() -> Self {
        Self::read(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn read(stat: &str) -> Self {
        // user, nice, system, idle, iowait, irq, softirq, steal; what guests took is in user already.
        let fields = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(8);
        let ticks: Vec<f64> = fields.filter_map(|field| field.parse().ok()).collect();
        let [.., idle, waiting, _, _, stolen] = ticks[..] else { return Self::default() };
        Self { all: ticks.iter().sum(), idle: idle + waiting, stolen }
    }

    /// Which part of the processors was busy since then, from 0 to 1.
    pub(crate) fn busy_since(self, before: Self) -> f64 {
        1.0 - (self.idle - before.idle) / (self.all - before.all).max(1.0)
    }

    /// Which part of the processors others on the same host took away since then, from 0 to 1.
    pub(crate) fn stolen_since(self, before: Self) -> f64 {
        (self.stolen - before.stolen) / (self.all - before.all).max(1.0)
    }
}

/// Waits until the processors have had little to do for a second: servers go on for a while after the last request, with
/// garbage mostly. False if they have not by then.
pub(crate) async fn calm(patience: Duration) -> bool {
    const LITTLE: f64 = 0.2;
    let started = Instant::now();
    while started.elapsed() < patience {
        let before = Ticks::now();
        tokio::time::sleep(Duration::from_secs(1)).await;
        if Ticks::now().busy_since(before) < LITTLE {
            return true;
        }
    }
    false
}

/// Notices when the machine stands still, or has too much to do: a thread that wakes up 20 times a second, and how late it was.
pub(crate) struct Heartbeat(Arc<Mutex<Duration>>);

impl Heartbeat {
    /// Begins. The thread ends with what is returned.
    pub(crate) fn begin() -> Self {
        const PACE: Duration = Duration::from_millis(50);
        let latest = Arc::new(Mutex::new(Duration::ZERO));
        let told = Arc::downgrade(&latest);
        thread::spawn(move || {
            loop {
                let started = Instant::now();
                thread::sleep(PACE);
                let late = started.elapsed().saturating_sub(PACE);
                let Some(latest) = told.upgrade() else { return };
                let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
                *latest = late.max(*latest);
            }
        });
        Self(latest)
    }

    /// How late it was at the most since this was last asked.
    pub(crate) fn latest(&self) -> Duration {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a process used up to now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// The most memory that it ever held, in megabytes of 1,000,000 bytes.
    pub peak_mb: f64,
    /// Memory that it holds now.
    pub resident_mb: f64,
    /// Seconds of processor time.
    pub cpu: f64,
}

impl Usage {
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            fs::read_to_string(&path).with_context(|| format!("read {path}: has the process ended?"))
        };
        let status = read("status")?;
        let megabytes = |name: &str| {
            let kilobytes = field(&status, name).and_then(kilobytes).unwrap_or_default();
            f64::from(u32::try_from(kilobytes).unwrap_or(u32::MAX)) * 1024.0 / 1e6
        };
        let ticks = ticks(&read("stat")?).context("no processor time in /proc")?;
        let per_second = u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100);
        Ok(Self {
            peak_mb: megabytes("VmHWM"),
            resident_mb: megabytes("VmRSS"),
            cpu: f64::from(ticks) / f64::from(per_second),
        })
    }

    /// Processor time of several processes.
    pub(crate) fn cpu_of(pids: impl IntoIterator<Item = u32>) -> f64 {
        pids.into_iter().filter_map(|pid| Self::of(pid).ok()).map(|usage| usage.cpu).sum()
    }
}

/// The value of `name: value` in a file of /proc.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn kilobytes(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.trim().parse().ok()
}

/// Processor time of /proc/PID/stat, in user mode and in the kernel. The name of the program may hold anything.
fn ticks(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u32>().ok();
    Some(next()? + next()?)
}

/// The commit that this is, with `+` if files were changed since.
pub(crate) fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|text| !text.is_empty());
    format!("{commit}{}", if changed { "+" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_are_found_by_their_whole_name() {
        let text = "Name:\tx\nVmHWMx:\t 1 kB\nVmHWM:\t  2048 kB\n";
        assert_eq!(field(text, "VmHWM").and_then(kilobytes), Some(2048));
        assert_eq!(field(text, "VmRSS"), None);
    }

    #[test]
    fn processor_time_is_read_behind_a_name_with_spaces_and_brackets() {
        let stat = "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0";
        assert_eq!(ticks(stat), Some(200));
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn time_of_processors_is_told_by_what_it_went_to() {
        let read = |line: &str| Ticks::read(&format!("cpu  {line}\ncpu0 9 9 9 9 9 9 9 9 9 9\n"));
        let (before, after) = (read("10 0 10 80 0 0 0 0 5 0"), read("30 5 20 120 20 0 5 10 9 0"));
        assert!((after.busy_since(before) - 50.0 / 110.0).abs() < 1e-9, "{}", after.busy_since(before));
        assert!((after.stolen_since(before) - 10.0 / 110.0).abs() < 1e-9);
        assert!(Ticks::now().all > 0.0);
    }

    #[test]
    fn this_process_has_memory() {
        let usage = Usage::of(std::process::id()).unwrap();
        assert!(usage.peak_mb > 0.0 && usage.resident_mb <= usage.peak_mb * 1.01, "{usage:?}");
        assert!(Machine::this().cores > 0);
    }
}
