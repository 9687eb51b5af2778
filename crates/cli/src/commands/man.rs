//! `baton man`: pages of the manual.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::exit::Exit;

/// Where they go.
#[derive(Args)]
#[command(after_help = "Examples:
  baton man /usr/local/share/man/man1
  baton man ~/.local/share/man/man1      then: man baton-run-list")]
pub struct ManArgs {
    /// The directory, which is made if it is missing.
    directory: PathBuf,
}

/// Writes a page for each command.
pub fn man(args: ManArgs) -> Result<(), Exit> {
    let failed = |error: std::io::Error| Exit::failed(format!("{}: {error}", args.directory.display()));
    std::fs::create_dir_all(&args.directory).map_err(failed)?;
    clap_mangen::generate_to(crate::Cli::command(), &args.directory).map_err(failed)?;
    for entry in std::fs::read_dir(&args.directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_ours = path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("baton"));
        if is_ours && path.extension().is_some_and(|extension| extension == "1") {
            let page = std::fs::read_to_string(&path).map_err(failed)?;
            std::fs::write(&path, with_examples(&page)).map_err(failed)?;
        }
    }
    Ok(())
}

/// The page with what stands below the help of a command as it is written there, under a name of its own.
fn with_examples(page: &str) -> String {
    let Some((begin, rest)) = page.split_once(".SH EXTRA\n") else { return page.to_owned() };
    let end = rest.find("\n.SH ").map_or(rest.len(), |end| end + 1);
    let (text, rest) = rest.split_at(end);
    let (heading, text) = match text.strip_prefix("Examples:\n") {
        Some(examples) => ("EXAMPLES", examples),
        None => ("NOTES", text),
    };
    format!("{begin}.SH {heading}\n.nf\n{text}.fi\n{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stay_as_they_are_written() {
        let page = ".SH OPTIONS\nx\n.SH EXTRA\nExamples:\n  baton a\n  baton b\n.SH VERSION\nv1\n";
        let expected = ".SH OPTIONS\nx\n.SH EXAMPLES\n.nf\n  baton a\n  baton b\n.fi\n.SH VERSION\nv1\n";
        assert_eq!(with_examples(page), expected);
        assert_eq!(with_examples(".SH EXTRA\nMore.\n"), ".SH NOTES\n.nf\nMore.\n.fi\n");
        assert_eq!(with_examples(".SH OPTIONS\n"), ".SH OPTIONS\n");
    }
}
