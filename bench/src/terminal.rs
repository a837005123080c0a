//! What the person at the terminal sees, and how they end the program.

use std::{
    future,
    io::{Write, stderr},
};

use tokio::signal::unix::{SignalKind, signal};

/// A line for the person at the terminal; results go to stdout.
pub(crate) fn say(line: &str) {
    let _ = writeln!(stderr(), "kantor-bench: {line}");
}

/// Ctrl-C, or the end of the terminal.
pub(crate) async fn asked_to_end() {
    let listen = |kind| signal(kind).ok();
    let (Some(mut interrupt), Some(mut terminate), Some(mut hangup)) =
        (listen(SignalKind::interrupt()), listen(SignalKind::terminate()), listen(SignalKind::hangup()))
    else {
        // Without listeners the signals end us at once, and the keeper does the rest.
        return future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}
