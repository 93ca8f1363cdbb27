//! Functions, and whether they must be called.

use serde_json::{Map, Value, json};

use super::super::super::fields::{Fields, invalid, missing, unsupported};
use super::super::super::schema::from_openapi;
use super::is_empty;
use crate::canonical::request::{Request, Tool, ToolChoice};
use crate::error::BadRequest;

/// Google's own tools go to `rest`: no other upstream has them.
pub(super) fn read_tools(
    tools: Vec<Fields>,
    request: &mut Request,
    rest: &mut Map<String, Value>,
) -> Result<(), BadRequest> {
    for mut tool in tools {
        for declaration in tool.objects("functionDeclarations")? {
            request.tools.push(read_declaration(declaration)?);
        }
        // An empty object names a tool, so nothing is empty here.
        rest.extend(tool.rest());
    }
    Ok(())
}

fn read_declaration(mut declaration: Fields) -> Result<Tool, BadRequest> {
    let name = declaration.text("name")?.filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| missing(declaration.at("name")))?;
    let description = declaration.text("description")?;
    let plain = declaration.take("parametersJsonSchema");
    let own = declaration.take("parameters");
    if plain.is_some() && own.is_some() {
        let why = "it cannot be given together with parameters";
        return Err(invalid(declaration.at("parametersJsonSchema"), why));
    }
    for hint in ["response", "responseJsonSchema"] {
        declaration.take(hint);
    }
    if let Some(behavior) = declaration.text("behavior")?
        && behavior == "NON_BLOCKING"
    {
        return Err(unsupported(declaration.at("behavior"), "a call is always waited for"));
    }
    declaration.none_left()?;
    let parameters = plain.or_else(|| own.map(from_openapi));
    let parameters = parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    Ok(Tool { name, description, parameters, strict: None })
}

pub(super) fn read_choice(
    mut config: Fields,
    request: &mut Request,
    rest: &mut Map<String, Value>,
) -> Result<(), BadRequest> {
    if let Some(mut calling) = config.object("functionCallingConfig")? {
        let mode = calling.text("mode")?;
        let allowed_at = calling.at("allowedFunctionNames");
        let allowed = calling.texts("allowedFunctionNames")?;
        let mode_at = calling.at("mode");
        calling.none_left()?;
        let all = request.tools.iter().all(|tool| allowed.contains(&tool.name));
        let some = !allowed.is_empty() && !all;
        request.tool_choice = match mode.as_deref().unwrap_or("AUTO").to_ascii_uppercase().as_str() {
            "MODE_UNSPECIFIED" | "AUTO" | "VALIDATED" if !some => mode.is_some().then_some(ToolChoice::Auto),
            "NONE" => Some(ToolChoice::None),
            "ANY" if allowed.len() == 1 => allowed.into_iter().next().map(ToolChoice::Function),
            "ANY" if !some => Some(ToolChoice::Any),
            "MODE_UNSPECIFIED" | "AUTO" | "VALIDATED" | "ANY" => {
                return Err(unsupported(allowed_at, "only one function, or all of them, can be allowed"));
            }
            _ => return Err(invalid(mode_at, "expected AUTO, ANY, NONE or VALIDATED")),
        };
    }
    rest.extend(config.rest().filter(|(_, value)| !is_empty(value)));
    Ok(())
}
