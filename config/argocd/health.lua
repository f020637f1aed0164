-- Health of every Fettle kind for Argo CD: https://argo-cd.readthedocs.io/en/stable/operator-manual/health/
-- docs/gitops.md says where to put this script. It needs no Lua library besides the base library.

local function health(status, message)
  return { status = status, message = message }
end

local status = obj.status or {}
local conditions = {}
for _, condition in ipairs(status.conditions or {}) do
  conditions[condition.type] = condition
end

local function because(condition)
  if condition.message == nil or condition.message == "" then
    return condition.reason
  end
  return condition.reason .. ": " .. condition.message
end

local ready = conditions.Ready
if obj.metadata.deletionTimestamp ~= nil then
  return health("Progressing", "Terminating: being deleted")
end
if ready == nil or (status.observedGeneration or 0) < (obj.metadata.generation or 0) then
  return health("Progressing", "waiting for the Fettle operator")
end
if ready.reason == "Paused" or status.phase == "Paused" or status.phase == "Hibernated" or ready.reason == "ManualRestart" then
  return health("Suspended", because(ready))
end
if status.phase == "Suspended" and ready.status == "True" then -- of a Backup
  return health("Suspended", because(ready))
end
if conditions.Stalled ~= nil and conditions.Stalled.status == "True" then
  return health("Degraded", because(conditions.Stalled))
end
if conditions.Reconciling ~= nil and conditions.Reconciling.status == "True" then
  return health("Progressing", because(conditions.Reconciling))
end
if status.phase == "Degraded" or status.phase == "Failed" then
  return health("Degraded", because(ready))
end
if ready.status == "True" then
  return health("Healthy", because(ready))
end
return health("Progressing", because(ready))
