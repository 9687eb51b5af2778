//! Workflows: the command line against workers, and the tutorial, followed to the letter.

mod commands;
mod kills;
mod large;
mod refusals;
mod survival;
