//! Which image an artifact stands for. An image that is not known for sure is a problem, never a guess: the workload
//! would run something else, or be refused much later.

use kantor_api::{Build, annotations, conditions::reasons};
use kube_core::ResourceExt;

use super::{Inputs, Problem};
use crate::hierarchy::logical_name;

/// The image of the artifact.
pub(super) fn image(inputs: &Inputs<'_>) -> Result<String, Problem> {
    let target = &inputs.artifact.spec.target_artifact;
    let build = target.from_build_ref.as_ref();
    let tag = target.from_image_ref.as_ref().and_then(|image| image.tag.as_deref());
    match (build.and_then(|build| build.name.as_deref()), tag) {
        // With both, the build counts, as it always did.
        (Some(name), _) => match inputs.build {
            Some(build) => built(inputs, build),
            None => Err(Problem::artifact(
                reasons::ARTIFACT_BUILD_NOT_FOUND,
                format!(
                    "Build {name} of DeployableArtifact {} does not exist; create it, or name another",
                    inputs.artifact.name_any()
                ),
            )),
        },
        (None, Some(tag)) => tagged(inputs, tag),
        (None, None) => Err(unknown(format!(
            "DeployableArtifact {} names no image; set targetArtifact.fromBuildRef.name or targetArtifact.fromImageRef.tag",
            inputs.artifact.name_any()
        ))),
    }
}

fn unknown(message: String) -> Problem {
    Problem::artifact(reasons::IMAGE_UNKNOWN, message)
}

/// What a Build resulted in, from the data plane's registry if it names none.
fn built(inputs: &Inputs<'_>, build: &Build) -> Result<String, Problem> {
    let status = build.status.as_ref().and_then(|status| status.image_status.as_ref());
    let Some(image) = status.map(|status| status.image.trim()).filter(|image| !image.is_empty()) else {
        return Err(Problem::artifact(
            reasons::IMAGE_NOT_BUILT,
            format!("Build {} has no image yet; its status will name one when it is done", build.name_any()),
        ));
    };
    if names_registry(image) {
        return Ok(image.to_owned());
    }
    let prefix = prefix(inputs).ok_or_else(|| {
        unknown(format!(
            "image {image} of Build {} names no registry; set registry.prefix of DataPlane {}",
            build.name_any(),
            inputs.data_plane.name_any()
        ))
    })?;
    Ok(format!("{prefix}/{image}"))
}

/// Whether the first segment of an image's path is a host.
fn names_registry(image: &str) -> bool {
    image.split_once('/').is_some_and(|(first, _)| first.contains(['.', ':']) || first == "localhost")
}

/// A whole reference, or a tag in the component's repository.
fn tagged(inputs: &Inputs<'_>, tag: &str) -> Result<String, Problem> {
    let digest = is_digest(tag);
    if !digest && tag.contains(['/', ':', '@']) {
        return Ok(tag.to_owned());
    }
    let repository = inputs.component.annotations().get(annotations::IMAGE_REPOSITORY);
    let repository = repository.map(|name| name.trim().trim_end_matches('/')).filter(|name| !name.is_empty());
    let repository = match (repository, prefix(inputs)) {
        (Some(repository), _) => repository.to_owned(),
        (None, Some(prefix)) => {
            // Repositories are written in lower case; logical names need not be.
            let name = format!("{}-{}", logical_name(inputs.project), logical_name(inputs.component));
            format!("{prefix}/{}", name.to_lowercase())
        }
        (None, None) => {
            return Err(unknown(format!(
                "nothing tells which repository tag {tag} is of; write a whole image reference in fromImageRef.tag, or set \
                 the annotation {} of Component {}, or registry.prefix of DataPlane {}",
                annotations::IMAGE_REPOSITORY,
                inputs.component.name_any(),
                inputs.data_plane.name_any()
            )));
        }
    };
    Ok(format!("{repository}{}{tag}", if digest { '@' } else { ':' }))
}

/// Whether a tag is a digest alone, such as `sha256:…`.
fn is_digest(tag: &str) -> bool {
    tag.split_once(':').is_some_and(|(algorithm, hash)| {
        matches!(algorithm, "sha256" | "sha512")
            && hash.len() >= 32
            && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// What goes in front of images that name no registry.
fn prefix<'a>(inputs: &Inputs<'a>) -> Option<&'a str> {
    let registry = inputs.data_plane.spec.registry.as_ref()?;
    Some(registry.prefix.trim().trim_end_matches('/')).filter(|prefix| !prefix.is_empty())
}
