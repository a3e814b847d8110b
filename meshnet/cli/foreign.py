"""What ``compile`` is given besides a spec: a Pod's manifest, or another project's settings in its own words."""

from __future__ import annotations

from meshnet.cli.options import read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.model.spec import Profile, Spec
    from meshnet.spec.dialects.istio_annotations import NotIntercepted
    from meshnet.spec.dialects.plain import Translated

DIALECTS = ("linkerd", "kuma")


def pod_spec(file: str, profile: Profile) -> Spec | NotIntercepted:
    """The Spec that a Pod's annotations ask for; the problems of its manifest begin with the file's name."""
    from meshnet.model.errors import SpecError
    from meshnet.spec.dialects.istio_annotations import spec_of_pod

    pod, name = _read_yaml(file, "Pod", typed=True)
    try:
        return spec_of_pod(pod, profile=profile)
    except SpecError as error:
        raise SpecError([f"{name}: {problem}" for problem in error.problems]) from None


def translated(dialect: str, words: tuple[str, ...]) -> Translated:
    """The Spec for another project's settings: linkerd2-proxy-init's flags, or the file of Kuma's configuration."""
    from meshnet.model.errors import SpecError, UsageError

    if dialect == "linkerd":
        from meshnet.spec.dialects import linkerd

        return linkerd.spec_of(words)
    from meshnet.spec.dialects import kuma

    if len(words) != 1:
        said = f"{len(words)} files ({' '.join(words)})" if words else "no file"
        raise UsageError(f"{said} with --dialect kuma", hint="the name of one file, or - for stdin")
    document, name = _read_yaml(words[0], "configuration", typed=False)
    try:
        return kuma.spec_of(document)
    except SpecError as error:
        raise SpecError([f"{name}: {problem}" for problem in error.problems]) from None


def _read_yaml(file: str, what: str, *, typed: bool) -> tuple[Any, str]:
    """The one document of a YAML or JSON file, and the file's name. Not ``typed``: every word is text as written."""
    import yaml

    from meshnet.model.errors import SpecError

    text, name = read_text(file, what)
    loader = yaml.SafeLoader if typed else yaml.BaseLoader
    try:
        # How deep a nesting the loaders written in C bear depends on their build; here it ends in an exception.
        found = [document for document in yaml.load_all(text, Loader=loader) if document not in (None, "")]
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise SpecError([f"{name}{line}: not YAML ({error.problem or error.context}): a {what}'s document"]) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = "nested too deeply" if isinstance(error, RecursionError) else str(error).splitlines()[0]
        raise SpecError([f"{name}: not YAML ({said}): a {what}'s document"]) from None
    if len(found) != 1:
        count = f"{len(found)} documents" if found else "nothing is written here"
        raise SpecError([f"{name}: {count}: one {what} in a file"])
    return found[0], name
