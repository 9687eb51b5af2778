//! What became of a call that did not work: whether to ask the same again, to look for other machines, or to have somebody mend something.

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{DisplayErrorContext, ProvideErrorMetadata, SdkError};
use baton_server::providers::ProviderError;

/// There are no such machines now, or no more for this account: others may be had.
const CAPACITY: [&str; 10] = [
    "InsufficientCapacity",
    "InsufficientFreeAddressesInSubnet",
    "InsufficientHostCapacity",
    "InsufficientInstanceCapacity",
    "InsufficientReservedInstanceCapacity",
    "InstanceLimitExceeded",
    "MaxSpotInstanceCountExceeded",
    "SpotMaxPriceTooLow",
    "UnfulfillableCapacity",
    "VcpuLimitExceeded",
];

/// EC2 has too much to do, has trouble itself, or has another call under the same token in its hands or in its memory.
const LATER: [&str; 10] = [
    "EC2ThrottledException",
    "IdempotentParameterMismatch",
    "InternalError",
    "InternalFailure",
    "RequestLimitExceeded",
    "RequestThrottled",
    "ServiceUnavailable",
    "Throttling",
    "ThrottlingException",
    "Unavailable",
];

/// Whether EC2 says that it has no such machines.
pub(crate) fn is_capacity(code: &str) -> bool {
    CAPACITY.contains(&code)
}

/// What a failed call means.
pub(crate) fn of<E>(call: &str, error: SdkError<E, HttpResponse>) -> ProviderError
where
    E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
{
    match &error {
        SdkError::ServiceError(refused) => {
            let (code, message) = (error.code().unwrap_or_default(), error.message().unwrap_or_default());
            let why = format!("EC2 answers {call} with {code}: {message}");
            let is_overloaded = matches!(refused.raw().status().as_u16(), 429 | 500..);
            match code {
                code if is_capacity(code) => ProviderError::Refused(why),
                code if is_overloaded || LATER.contains(&code) => ProviderError::Unclear(why),
                _ => ProviderError::Misconfigured(why),
            }
        }
        SdkError::DispatchFailure(failure) if !failure.is_timeout() && !failure.is_io() => {
            // Nothing was sent: there are no credentials, or they could not be used.
            ProviderError::Misconfigured(format!("{call} could not be sent: {}", DisplayErrorContext(&error)))
        }
        SdkError::ConstructionFailure(_) => {
            ProviderError::Misconfigured(format!("{call} could not be sent: {}", DisplayErrorContext(&error)))
        }
        // Whoever does not answer may have done it.
        _ => ProviderError::Unclear(format!("{call}: {}", DisplayErrorContext(&error))),
    }
}
