"""What a JSON Schema cannot say of a request, so that schemathesis takes it for wrong or for right."""

import schemathesis

MOST_INTEGER = 2**53


def crosses(value):
    """Whether a value is one that the wire takes: whole numbers written as such, and none that loses digits."""
    if isinstance(value, dict):
        return all(crosses(member) for member in value.values())
    if isinstance(value, list):
        return all(crosses(element) for element in value)
    if isinstance(value, bool):
        return True
    if isinstance(value, int):
        return abs(value) <= MOST_INTEGER
    if isinstance(value, float):
        return not value.is_integer()
    return True


@schemathesis.hook
def filter_case(context, case):
    # A header that nobody knows is no fault of a request, whatever the document lists.
    if any("unknown-property" in name.lower() for name in case.headers or {}):
        return False
    is_right = case.meta is None or case.meta.generation.mode.name == "POSITIVE"
    return crosses(case.body) if is_right else True


@schemathesis.hook
def map_case(context, case):
    # Time that is good is also enough, or an answer would be that it was not.
    name = "Bezel-Timeout"
    given = str((case.headers or {}).get(name, ""))
    if given.isascii() and given.isdigit() and 1 <= int(given) <= 24 * 60 * 60 * 1000:
        case.headers[name] = "15000"
    return case
