"""`spark-pipelines` as SPARK-59135 mends it: up to Spark 4.3 it ends at the first Python source.

What the workers of Python sources say of their profiles, which are empty, its client takes for an
answer that it does not know.
"""

from __future__ import annotations

import runpy

from pyspark.pipelines import cli
from pyspark.sql.connect.client.core import SparkConnectClient


def execute_command_as_iterator(self, command, observations=None):
    request = self._execute_plan_request_with_metadata()
    self._set_command_in_plan(request.plan, command)
    for response in self._execute_and_fetch_as_iterator(request, observations or {}):
        if isinstance(response, dict):
            yield response


if __name__ == "__main__":
    SparkConnectClient.execute_command_as_iterator = execute_command_as_iterator
    runpy.run_path(cli.__file__, run_name="__main__")
