//! /api/v1/webhooks, with a receiver on this machine.

mod addresses;
mod definitions;
mod deliveries;
mod receiver;
