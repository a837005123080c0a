//! Writing metrics of the table that are read off something at each scrape.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};

use super::table::Entry;

/// Writes whole metrics. One without samples is left out.
pub(super) struct Exposition<'a, 'b>(pub(super) &'a mut DescriptorEncoder<'b>);

impl Exposition<'_, '_> {
    /// Writes a counter: values of its labels, in the order of the table, and counts.
    pub(super) fn counter<'a, const N: usize>(
        &mut self,
        entry: &Entry,
        samples: impl IntoIterator<Item = ([&'a str; N], u64)>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.0.encode_descriptor(entry.family(), entry.help, None, entry.metric_type())?;
        for (values, count) in samples {
            let labels = labels(entry, values);
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        Ok(())
    }

    /// As [`Exposition::counter`], for a gauge.
    pub(super) fn gauge<'a, const N: usize>(
        &mut self,
        entry: &Entry,
        samples: impl IntoIterator<Item = ([&'a str; N], i64)>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.0.encode_descriptor(entry.family(), entry.help, None, entry.metric_type())?;
        for (values, value) in samples {
            let labels = labels(entry, values);
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

fn labels<'a, const N: usize>(entry: &Entry, values: [&'a str; N]) -> Vec<(&'static str, &'a str)> {
    entry.labels.iter().map(|(label, _)| *label).zip(values).collect()
}
