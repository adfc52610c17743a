import java.io.IOException;
import java.util.Collection;
import java.util.List;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.elasticsearch.Build;
import org.elasticsearch.client.internal.node.NodeClient;
import org.elasticsearch.cluster.metadata.IndexNameExpressionResolver;
import org.elasticsearch.cluster.node.DiscoveryNodes;
import org.elasticsearch.common.io.stream.NamedWriteableRegistry;
import org.elasticsearch.common.settings.ClusterSettings;
import org.elasticsearch.common.settings.IndexScopedSettings;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.common.settings.SettingsFilter;
import org.elasticsearch.features.NodeFeature;
import org.elasticsearch.plugins.ActionPlugin;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.rest.BaseRestHandler;
import org.elasticsearch.rest.RestController;
import org.elasticsearch.rest.RestHandler;
import org.elasticsearch.rest.RestRequest;
import org.elasticsearch.rest.RestResponse;
import org.elasticsearch.rest.RestStatus;
import org.elasticsearch.xcontent.XContentBuilder;
import org.elasticsearch.xcontent.json.JsonXContent;

/** Answers GET / and HEAD /, which clients ask first: the stock module rest-root is not published as a library. */
public final class RestRootPlugin extends Plugin implements ActionPlugin {
  @Override
  public Collection<RestHandler> getRestHandlers(
      Settings settings,
      NamedWriteableRegistry namedWriteables,
      RestController controller,
      ClusterSettings clusterSettings,
      IndexScopedSettings indexSettings,
      SettingsFilter settingsFilter,
      IndexNameExpressionResolver indexNames,
      Supplier<DiscoveryNodes> nodes,
      Predicate<NodeFeature> features) {
    return List.of(new RootHandler(settings.get("cluster.name", "elasticsearch"), nodes));
  }

  private static final class RootHandler extends BaseRestHandler {
    private final String clusterName;
    private final Supplier<DiscoveryNodes> nodes;

    RootHandler(String clusterName, Supplier<DiscoveryNodes> nodes) {
      this.clusterName = clusterName;
      this.nodes = nodes;
    }

    @Override
    public String getName() {
      return "main_action";
    }

    @Override
    public List<Route> routes() {
      return List.of(new Route(RestRequest.Method.GET, "/"), new Route(RestRequest.Method.HEAD, "/"));
    }

    @Override
    protected RestChannelConsumer prepareRequest(RestRequest request, NodeClient client) {
      return channel -> channel.sendResponse(new RestResponse(RestStatus.OK, describe()));
    }

    private XContentBuilder describe() throws IOException {
      Build build = Build.current();
      XContentBuilder json = JsonXContent.contentBuilder().prettyPrint();
      json.startObject();
      json.field("name", nodes.get().getLocalNode().getName());
      json.field("cluster_name", clusterName);
      json.field("cluster_uuid", nodes.get().getLocalNodeId());
      json.startObject("version");
      json.field("number", build.version());
      json.field("build_flavor", "default");
      json.field("build_type", build.type().displayName());
      json.field("build_hash", build.hash());
      json.field("build_date", build.date());
      json.field("build_snapshot", build.isSnapshot());
      json.field("lucene_version", org.apache.lucene.util.Version.LATEST.toString());
      json.field("minimum_wire_compatibility_version", build.minWireCompatVersion());
      json.field("minimum_index_compatibility_version", build.minIndexCompatVersion());
      json.endObject();
      json.field("tagline", "You Know, for Search");
      json.endObject();
      return json;
    }
  }
}
