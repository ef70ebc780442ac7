// The fields of the rows of time breakdowns (where.h).
#pragma once

#include "result/result.h"
#include "xplane_time/where.h"

namespace xplane_time::result {

void VisitRow(const WhereDevice& row, FieldSink* sink);
void VisitRow(const WhereFunction& row, FieldSink* sink);
void VisitRow(const WhereStep& row, FieldSink* sink);
void VisitRow(const WhereTransfer& row, FieldSink* sink);
void VisitRow(const WhereGap& row, FieldSink* sink);

}  // namespace xplane_time::result
