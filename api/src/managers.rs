//! Field managers: under which name Kantor writes with server-side apply.

use crate::vocabulary::vocabulary;

vocabulary! {
    /// Everything that Kantor writes, other than the objects of Releases.
    KANTOR = "kantor";
    /// Objects of Releases.
    RELEASE = "release-controller";
}
