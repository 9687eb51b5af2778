//! The provider `ec2`: machines of runner pools are instances of Amazon EC2.
//!
//! An order is one fleet of the type `instant`: EC2 looks for its machines in all types and subnets that the pool allows, and says at once what it
//! found. What makes an order safe to repeat is the client token of the fleet and a tag with the order's token on every instance. A crate of its
//! own, because the SDK takes longer to compile than everything else together.

mod client;
mod fleet;
mod instances;
mod kinds;
mod options;
mod start;
mod trouble;

use std::collections::BTreeSet;

use async_trait::async_trait;
use baton_core::pools::PoolSpec;
use baton_server::providers::{AgentPlace, Create, PoolInfo, Provider, ProviderError, ProviderMachine};

use client::Clients;
use fleet::Order;
use kinds::Kinds;
use options::Options;

/// What pools call this provider.
pub const NAME: &str = "ec2";

/// Instances of EC2.
#[derive(Debug, Default)]
pub struct Ec2Provider {
    clients: Clients,
    kinds: Kinds,
}

impl Ec2Provider {
    /// With credentials, region and endpoint from where every program of AWS looks for them: the environment, profiles, and the role of the machine
    /// that the server runs on.
    pub fn new() -> Ec2Provider {
        Ec2Provider::default()
    }

    /// With these, instead.
    pub fn with(config: aws_config::SdkConfig) -> Ec2Provider {
        Ec2Provider { clients: Clients::with(config), kinds: Kinds::default() }
    }

    fn options(pool: &PoolInfo) -> Result<Options, ProviderError> {
        Options::of(&pool.spec).map_err(ProviderError::Misconfigured)
    }
}

#[async_trait]
impl Provider for Ec2Provider {
    fn check(&self, spec: &PoolSpec) -> Result<(), String> {
        start::check(&Options::of(spec)?, spec)
    }

    /// Nothing of it runs here. But whoever makes such a pool starts machines in the account of whoever runs the server, with whatever rights the
    /// launch template gives them.
    fn runs_here(&self) -> bool {
        true
    }

    fn agents_run(&self) -> AgentPlace {
        AgentPlace::Elsewhere
    }

    async fn create(&self, wanted: &Create) -> Result<Vec<ProviderMachine>, ProviderError> {
        let pool = &wanted.pool;
        let options = Ec2Provider::options(pool)?;
        let user_data = start::user_data(&options, &wanted.environment).map_err(ProviderError::Misconfigured)?;
        let client = self.clients.of(options.region.as_deref()).await?;
        let kinds = self.kinds.of(&client, &options, &pool.spec).await?;
        // Also those that have ended since: an order makes its machines once.
        let made = instances::of_order(&client, pool, &wanted.token).await?;
        let made_before = u32::try_from(made.len()).unwrap_or(u32::MAX);
        let mut machines: Vec<ProviderMachine> =
            made.iter().filter(|made| instances::costs(made)).filter_map(|made| kinds.machine(made, pool)).collect();
        let Some(missing) = wanted.count.checked_sub(made_before).filter(|missing| *missing > 0) else {
            return Ok(machines);
        };
        let order = Order { wanted, options: &options, made_before, missing, user_data };
        let new = fleet::create(&client, &kinds, order).await?;
        let known: BTreeSet<String> = machines.iter().map(|machine| machine.id.clone()).collect();
        machines.extend(new.into_iter().filter(|machine| !known.contains(&machine.id)));
        Ok(machines)
    }

    async fn terminate(&self, pool: &PoolInfo, machines: &[String]) -> Result<(), ProviderError> {
        let options = Ec2Provider::options(pool)?;
        let client = self.clients.of(options.region.as_deref()).await?;
        instances::terminate(&client, pool, machines).await
    }

    async fn list(&self, pool: &PoolInfo) -> Result<Vec<ProviderMachine>, ProviderError> {
        let options = Ec2Provider::options(pool)?;
        let client = self.clients.of(options.region.as_deref()).await?;
        let found = instances::of_pool(&client, pool).await?;
        // Only the size of machines is at stake, and an instance that is not listed counts as lost.
        let kinds = self.kinds.of(&client, &options, &pool.spec).await.unwrap_or_default();
        Ok(found.iter().filter_map(|instance| kinds.machine(instance, pool)).collect())
    }
}
