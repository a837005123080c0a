//! What Events say: as much as the API takes, all that stays behind, and no more of them than anybody reads.

use std::time::Duration;

/// The longest note that the API takes, in bytes.
const LONGEST: usize = 1024;
/// The most Events that tell what stays behind; the log tells all of it.
const MOST: usize = 32;

/// A note that the API takes.
pub fn shortened(mut note: String) -> String {
    const CUT: &str = "…";
    if note.len() > LONGEST {
        note.truncate(note.floor_char_boundary(LONGEST - CUT.len()));
        note.push_str(CUT);
    }
    note
}

/// Notes that name all of `objects`, which stay behind on `place`: each as long as the API takes.
pub fn left_behind(place: &str, objects: &[String]) -> Vec<String> {
    let begin = format!("left behind on data plane {place}: ");
    if objects.is_empty() {
        return vec![format!("{begin}whatever is there")];
    }
    let mut notes: Vec<String> = vec![];
    for object in objects {
        match notes.last_mut() {
            Some(note) if note.len() + 2 + object.len() <= LONGEST => {
                note.push_str(", ");
                note.push_str(object);
            }
            _ => notes.push(format!("{begin}{object}")),
        }
    }
    notes
}

/// Those of `notes` that are Events. The last one says how many are not.
pub fn as_events(mut notes: Vec<String>) -> Vec<String> {
    let more = notes.len().saturating_sub(MOST);
    if more > 0 {
        notes.truncate(MOST);
        notes.push(format!("there is more than Events tell: see {more} further lines of the operator's log"));
    }
    notes
}

/// How many Events of an object may be sent: some at once, then few.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    left: u32,
    since: Duration,
}

impl Allowance {
    const MOST: u32 = 60;
    const EACH: Duration = Duration::from_secs(10);
    /// How long it takes until an object that was not told of has all of them again.
    pub const FULL_AFTER: Duration = Duration::from_mins(10);

    /// Of an object that was not told of yet. Times are since any one moment.
    pub fn full(now: Duration) -> Self {
        Self { left: Self::MOST, since: now }
    }

    /// Takes one, if there is one left.
    pub fn take(&mut self, now: Duration) -> bool {
        let passed = now.saturating_sub(self.since).as_secs() / Self::EACH.as_secs();
        if let Ok(more @ 1..) = u32::try_from(passed) {
            self.left = self.left.saturating_add(more).min(Self::MOST);
            self.since = now;
        }
        let has_one = self.left > 0;
        self.left = self.left.saturating_sub(1);
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_cut_at_a_character_to_what_the_api_takes() {
        assert_eq!(shortened("ready".to_owned()), "ready");
        let exact = "x".repeat(LONGEST);
        assert_eq!(shortened(exact.clone()), exact);
        for long in ["x".repeat(LONGEST + 1), "ä".repeat(LONGEST), format!("x{}", "…".repeat(LONGEST))] {
            let cut = shortened(long);
            assert!(cut.len() <= LONGEST && cut.len() > LONGEST - 8 && cut.ends_with('…'), "{}", cut.len());
        }
    }

    #[test]
    fn all_that_stays_behind_is_named_in_as_many_notes_as_it_takes() {
        let objects: Vec<String> =
            (0..40).map(|n| format!("ConfigMap home/{}{n}", "x".repeat(250))).collect();
        let notes = left_behind("eu", &objects);
        assert!(notes.len() > 1 && notes.iter().all(|note| note.len() <= LONGEST));
        assert!(notes.iter().all(|note| note.starts_with("left behind on data plane eu: ConfigMap")));
        for object in &objects {
            assert_eq!(
                notes
                    .iter()
                    .filter(|note| note.split(", ").any(|part| part.ends_with(object.as_str())))
                    .count(),
                1
            );
        }
        assert_eq!(left_behind("eu", &objects[..1]).len(), 1);
        assert_eq!(left_behind("eu", &[]).len(), 1, "that nothing is known is told, too");
        assert_eq!(as_events(notes.clone()), notes);
        let many = as_events(vec!["x".to_owned(); MOST + 5]);
        assert_eq!(many.len(), MOST + 1);
        assert!(many[MOST].contains("5 further lines"));
    }

    #[test]
    fn an_object_has_some_events_at_once_and_then_few() {
        let start = Duration::from_secs(5);
        let mut allowance = Allowance::full(start);
        let taken = (0..200).filter(|_| allowance.take(start)).count();
        assert_eq!(taken, 60);
        assert!(!allowance.take(start + Duration::from_secs(9)));
        let later = start + Duration::from_secs(30);
        assert_eq!((0..9).filter(|_| allowance.take(later)).count(), 3);
        let full = later + Allowance::FULL_AFTER * 2;
        assert_eq!((0..200).filter(|_| allowance.take(full)).count(), 60);
    }
}
