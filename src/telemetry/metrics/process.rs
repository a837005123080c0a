//! The process, as `/proc` shows it.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet},
};

use super::table::{self, Entry};

/// The process itself. What cannot be read is left out.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let ticks = ticks_per_second();
        if let Some(used) = stat_field(&stat, 14).zip(stat_field(&stat, 15)) {
            let seconds = seconds(used.0 + used.1, ticks);
            let entry = &table::PROCESS_CPU;
            let mut metric =
                encoder.encode_descriptor(entry.family(), entry.help, None, entry.metric_type())?;
            metric.encode_counter::<NoLabelSet, _, f64>(&seconds, None)?;
        }
        let booted = fs::read_to_string("/proc/stat").ok().and_then(|stat| boot_time(&stat));
        let started = booted.zip(stat_field(&stat, 22));
        #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are few enough")]
        let started = started.map(|(booted, ticks_since)| booted as f64 + seconds(ticks_since, ticks));
        gauge(&mut encoder, &table::PROCESS_START, started)?;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        gauge(&mut encoder, &table::PROCESS_MEMORY, resident_memory(&status))?;
        let open = fs::read_dir("/proc/self/fd").ok().and_then(|entries| i64::try_from(entries.count()).ok());
        gauge(&mut encoder, &table::PROCESS_FDS, open)?;
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        gauge(&mut encoder, &table::PROCESS_MAX_FDS, max_fds(&limits))
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    entry: &Entry,
    value: Option<impl EncodeGaugeValue>,
) -> fmt::Result {
    let Some(value) = value else { return Ok(()) };
    encoder.encode_descriptor(entry.name, entry.help, None, entry.metric_type())?.encode_gauge(&value)
}

fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

#[expect(clippy::cast_precision_loss, reason = "it would take years to lose a tick")]
fn seconds(ticks: u64, per_second: u64) -> f64 {
    ticks as f64 / per_second.max(1) as f64
}

/// A field of `/proc/self/stat`, counted from 1 as in proc(5). The second is a name in brackets that may hold anything.
fn stat_field(stat: &str, number: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// When the machine was booted, in seconds since 1970.
fn boot_time(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Bytes.
fn resident_memory(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<i64>().ok()? * 1024)
}

fn max_fds(limits: &str) -> Option<i64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_proc_are_read() {
        let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 9 0 12345 1000000 500";
        assert_eq!((stat_field(stat, 14), stat_field(stat, 15)), (Some(250), Some(50)));
        assert_eq!(stat_field(stat, 22), Some(12345));
        assert_eq!(stat_field("", 14), None);
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\nprocesses 9\n"), Some(1_700_000_000));
        assert_eq!(resident_memory("Name:\tkantor\nVmRSS:\t    2048 kB\n"), Some(2048 * 1024));
        let limits =
            "Limit Soft Limit Hard Limit Units\nMax open files            1024                 4096  files\n";
        assert_eq!(max_fds(limits), Some(1024));
        assert_eq!(max_fds("Max open files            unlimited            unlimited  files\n"), None);
    }
}
